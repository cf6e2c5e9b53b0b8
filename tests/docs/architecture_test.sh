#!/bin/bash
# Runs the command of docs/architecture.md and searches its dump for every line that the page shows.
set -euo pipefail
train=$PWD/models/mlp/train
page=$PWD/docs/architecture.md
cd "$TEST_TMPDIR"
command=$(grep -m1 -- '--dump=graph,plan,program,memory' "$page")
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
# shellcheck disable=SC2086  # the flags, as a shell would split them
"$train" ${command#*-- } >log 2>&1 || { cat log; exit 1; }

# The workspace that a library needs differs between processors.
for file in small/dump/*.txt; do sed -E 's/ workspace=[0-9]+//' "$file" >"$(basename "$file" .txt)"; done
failed=0 block=
while IFS= read -r line; do
  case $line in
    '```graph-train' | '```program-train') block=${line#'```'} ;;
    '```') block= ;;
    *)
      [[ -z $block ]] || grep -qxF -- "$line" "$block" || {
        echo "not in the dump of $block: $line"
        failed=1
      }
      ;;
  esac
done <"$page"
[[ $(grep -c '^```.*-train$' "$page") -ge 5 ]] || { echo "the page shows too little"; failed=1; }
exit $failed
