#!/bin/bash
# The listings of docs/writing-a-model.md are the files of models/ratings, all of them. Runs the
# commands of the page.
set -euo pipefail
root=$PWD
page=$root/docs/writing-a-model.md
cd "$TEST_TMPDIR"
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
export XDG_CACHE_HOME=$TEST_TMPDIR/cache
"$root/tests/train/keep_rates" "$XDG_CACHE_HOME"
# Prints the listing of this title.
listing() { awk -v title="$1" '$0 == "```" title {on = 1; next} /^```/ {on = 0} on' "$page"; }

shown=0
while IFS= read -r file; do
  name=${file#"$root/models/ratings/"}
  # Its last target is that of this test.
  listing "$name" | diff - <(sed '/^# docs\/writing-a-model.md/,$d' "$file" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}') || {
    echo "the page does not show models/ratings/$name"
    exit 1
  }
  shown=$((shown + 1))
done < <(find -L "$root/models/ratings" -type f ! -name train)
((shown == 6)) || { echo "models/ratings has $shown files"; exit 1; }

ran=0
while IFS= read -r command; do
  echo "+ $command"
  command=${command#./bazelw run //}
  target=${command%% *} flags=${command#*-- }
  case $target in
    models/ratings:train) program=models/ratings/train ;;
    tools/*) program=$target/${target#tools/} ;;
  esac
  eval "\"$root/$program\" $flags" >log 2>&1 || { tail -5 log; exit 1; }
  if [[ $program == models/* ]]; then grep -q 'top2' log || { echo "no metric:"; tail log; exit 1; }; fi
  ran=$((ran + 1))
done < <(listing commands)
((ran == 5)) || { echo "the page has $ran commands"; exit 1; }

# A size that cannot be is one line that names the field.
if "$root/models/ratings/train" --set=model.stars=1 >log 2>&1; then exit 1; fi
grep -xF 'error: model.stars: 1 is not from 2 to 67108864' log || { cat log; exit 1; }
