#!/usr/bin/env bash
# Posts comment.md to a pull request, or updates the one posted before. It has the token, so it runs nothing
# of the pull request; of the files that a run of it left it takes one as text, and believes no number that
# does not belong to the commit of that run.
#
#   GH_TOKEN=... REPOSITORY=owner/name NUMBER=12 HEAD=SHA COMMENT=policy-review/comment.md bash comment.sh
set -euo pipefail

: "${REPOSITORY:?owner/name}" "${NUMBER:?the pull request}" "${HEAD:?the commit reviewed}" "${COMMENT:?the file to post}"
mark="<!-- orchestrate policy review -->"
[[ "$NUMBER" =~ ^[0-9]+$ ]] || { echo "this is not the number of a pull request" >&2; exit 2; }
[[ -f "$COMMENT" && ! -L "$COMMENT" ]] || { echo "there is no comment to post" >&2; exit 2; }
[[ "$(head -n 1 "$COMMENT")" == "$mark" ]] || { echo "$COMMENT is not a policy review" >&2; exit 2; }

if [[ "$(gh api "repos/$REPOSITORY/pulls/$NUMBER" --jq .head.sha)" != "$HEAD" ]]; then
  echo "pull request $NUMBER does not stand at $HEAD (any more): nothing is posted"
  exit 0
fi
known="$(gh api --paginate "repos/$REPOSITORY/issues/$NUMBER/comments" \
  --jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$mark\"))) | .id" | sed -n 1p)"
if [[ -n "$known" ]]; then
  gh api --method PATCH "repos/$REPOSITORY/issues/comments/$known" --field "body=@$COMMENT" >/dev/null
  echo "updated comment $known"
else
  gh api --method POST "repos/$REPOSITORY/issues/$NUMBER/comments" --field "body=@$COMMENT" >/dev/null
  echo "posted a comment"
fi
echo "number=$NUMBER" >>"${GITHUB_OUTPUT:-/dev/null}"
