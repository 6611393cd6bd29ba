#!/usr/bin/env bash
# Posts comment.md to a pull request, or updates the one posted before. It has the token, so it runs nothing
# of the pull request and reads one file of it, which it treats as text.
#
#   GH_TOKEN=... REPOSITORY=owner/name NUMBER=12 COMMENT=policy-review/comment.md bash comment.sh
set -euo pipefail

: "${REPOSITORY:?owner/name}" "${NUMBER:?the pull request}" "${COMMENT:?the file to post}"
[[ "$NUMBER" =~ ^[0-9]+$ ]] || { echo "not a number: $NUMBER" >&2; exit 2; }
mark="<!-- orchestrate policy review -->"
known="$(gh api --paginate "repos/$REPOSITORY/issues/$NUMBER/comments" \
  --jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$mark\"))) | .id" | head -n 1)"
if [[ -n "$known" ]]; then
  gh api --method PATCH "repos/$REPOSITORY/issues/comments/$known" --field "body=@$COMMENT" >/dev/null
  echo "updated comment $known"
else
  gh api --method POST "repos/$REPOSITORY/issues/$NUMBER/comments" --field "body=@$COMMENT" >/dev/null
  echo "posted a comment"
fi
