#!/bin/bash
# Runs the commands of docs/plans.md with few steps, and searches the Plans of docs/plans for every
# line that the page shows of them.
set -euo pipefail
root=$PWD
page=$root/docs/plans.md
failed=0 file= shown=0
while IFS= read -r line; do
  case $line in
    '```') file= ;;
    '```'*)
      file=$root/docs/plans/${line#'```'}.textproto
      [[ -f $file ]] || { echo "there is no ${file#"$root"/}"; exit 1; }
      ;;
    *)
      [[ -n $file ]] || continue
      shown=$((shown + 1))
      grep -qxF -- "$line" "$file" || {
        echo "not in ${file#"$root"/}: $line"
        failed=1
      }
      ;;
  esac
done <"$page"
((shown >= 5)) || { echo "the page shows only $shown lines of Plans"; exit 1; }
for file in "$root"/docs/plans/*.textproto; do
  grep -qF "docs/plans/${file##*/}" "$page" || { echo "the page does not name ${file##*/}"; failed=1; }
done

cd "$TEST_TMPDIR"
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
ln -sfn "$root/docs" docs
export XDG_CACHE_HOME=$TEST_TMPDIR/cache
"$root/tests/train/keep_rates" "$XDG_CACHE_HOME"
# Runs the page's commands of a model, with more flags.
run_commands() {
  local model=$1 flags=$2 ran=0
  while IFS= read -r line; do
    command=${line#*:train -- }
    echo "$model $command"
    eval "\"$root/models/$model/train\" $command $flags" >log 2>&1 || {
      tail -5 log
      echo "docs/plans.md says: $line"
      exit 1
    }
    ran=$((ran + 1))
  done < <(grep -E "^    \./bazelw run //models/$model:train -- " "$page")
  ((ran >= 2)) || { echo "the page has $ran commands for $model"; exit 1; }
}
run_commands gpt "--steps=1 --batch=8 --sequence=16 --sample_tokens=0"
run_commands vgg ""
exit $failed
