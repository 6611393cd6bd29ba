#!/usr/bin/env bash
# Reviews the policies of a checkout against another revision: annotations on stdout, files in $OUT.
#
#   BASE=origin/main POLICIES=policies RECORDINGS=recordings OUT=policy-review bash review.sh
#
# Exit 1 when lint or a case finds something, 2 when the review itself could not be done. Differences of
# policies are what a review is for: they are told, and fail nothing.
set -euo pipefail

: "${BASE:?the revision to compare with}"
POLICIES="${POLICIES:-policies}"
RECORDINGS="${RECORDINGS:-}"
OUT="${OUT:-policy-review}"
ORCHESTRATE="${ORCHESTRATE:-orchestrate}"
POLICIES="${POLICIES%/}" RECORDINGS="${RECORDINGS%/}"
LIMIT=60000  # characters that a comment may have

mkdir -p "$OUT"
base="$(git rev-parse --verify --quiet --short=12 --end-of-options "${BASE}^{commit}")" || {
  echo "::error::the base revision is not in this checkout; use actions/checkout with fetch-depth: 0"
  exit 2
}

shopt -s nullglob
policies=()
for file in "./$POLICIES"/*.yaml; do
  [[ "$file" == *.cases.yaml ]] || policies+=("$file")
done
cases=("./$POLICIES"/*.cases.yaml)
recordings=()
if [[ -n "$RECORDINGS" ]]; then
  for file in "./$RECORDINGS"/*; do
    [[ "$file" == *.md ]] || recordings+=("$file")
  done
fi
if ((${#policies[@]} == 0)); then
  echo "::error::there is no policy in $POLICIES"
  exit 2
fi

# What a command prints goes to a file; its exit code is returned, and 2 or more ends the review.
said() {
  local file="$1" code=0
  shift
  "$@" >"$file" || code=$?
  if ((code > 1)); then
    echo "::error::$1 $2 could not be done (exit code $code)"
    exit 2
  fi
  return "$code"
}

failed=0
said "$OUT/lint.sarif" "$ORCHESTRATE" lint --format sarif "${policies[@]}" || true
said "$OUT/annotations.txt" "$ORCHESTRATE" lint --format github "${policies[@]}" || failed=1
cat "$OUT/annotations.txt"
said "$OUT/lint.txt" "$ORCHESTRATE" lint "${policies[@]}" || true
: >"$OUT/cases.txt"
if ((${#cases[@]})); then
  said "$OUT/cases.txt" "$ORCHESTRATE" test --junit "$OUT/cases.xml" "${cases[@]}" || failed=1
fi

{
  echo "<!-- orchestrate policy review -->"
  echo "# Policy review"
  echo
  echo "Lint:"
  echo
  sed 's/^/    /' "$OUT/lint.txt"
  echo
  echo "Cases:"
  echo
  sed 's/^/    /' "$OUT/cases.txt"
} >"$OUT/comment.md"

differing=0
for file in "${policies[@]}"; do
  path="${file#./}"
  if ! git cat-file -e "$base:$path" 2>/dev/null; then
    printf '\n`%s` is new.\n' "$path" >>"$OUT/comment.md"
    continue
  fi
  on=()
  ((${#recordings[@]})) && on=(--on "${recordings[@]}")
  if ! said "$OUT/diff.md" "$ORCHESTRATE" diff "$base:$path" "$file" "${on[@]}" --format markdown --exit-code; then
    differing=1
    { echo; cat "$OUT/diff.md"; } >>"$OUT/comment.md"
  fi
done
while IFS= read -r -d '' path; do
  [[ "$path" == *.yaml && "$path" != *.cases.yaml ]] && printf '\n`%s` is gone.\n' "$path" >>"$OUT/comment.md"
done < <(git diff -z --name-only --no-renames --diff-filter=D "$base" -- "$POLICIES")
((differing)) || printf '\nNo policy in force differs from the base.\n' >>"$OUT/comment.md"

if (($(wc -m <"$OUT/comment.md") > LIMIT)); then
  python3 - "$OUT/comment.md" "$LIMIT" <<'PY'
import sys
path, limit = sys.argv[1], int(sys.argv[2])
text = open(path, encoding="utf-8").read()
open(path, "w", encoding="utf-8").write(text[:limit].rpartition("\n")[0] + "\n\n... the rest is in the artifact.\n")
PY
fi
rm -f "$OUT/diff.md" "$OUT/annotations.txt"
exit "$failed"
