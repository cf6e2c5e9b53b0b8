#!/bin/bash
# Runs every comparison of README.md and tools/compare/README.md with few steps.
set -euo pipefail
root=$PWD
cd "$TEST_TMPDIR"
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
ln -s "$root/docs" docs
export XDG_CACHE_HOME=$TEST_TMPDIR/cache
"$root/tests/train/keep_rates" "$XDG_CACHE_HOME"
ran=0
declare -A known
while IFS= read -r line; do
  command=${line#*//tools/compare}
  command=${command%%#*}
  command=$(sed -E 's/--steps=[0-9]+//' <<<"${command#*-- }")
  [[ -z ${known[compare $command]:-} ]] || continue  # several documents have it
  known[compare $command]=1
  echo "compare $command"
  eval "\"$root/tools/compare/compare\" $command --steps=1 --batch=2 --sequence=16" >log 2>&1 || {
    tail -5 log
    echo "a README says: $line"
    exit 1
  }
  grep -q 'loss of step 2 ' log || { echo "no table:"; tail -5 log; exit 1; }
  ran=$((ran + 1))
done < <(grep -hE '^    \./bazelw run //tools/compare' "$root"/{,tools/compare/}README.md)
((ran >= 5)) || { echo "only $ran commands were found"; exit 1; }
[[ -s table.json ]] || { echo "there is no table.json"; exit 1; }
