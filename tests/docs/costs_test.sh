#!/bin/bash
# Runs the commands of docs/costs.md with few steps, and compares what they print of calls and bytes
# with the page. Its cluster is read.
set -euo pipefail
root=$PWD
page=$root/docs/costs.md
train=$root/models/gpt/train
cd "$TEST_TMPDIR"
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
ln -sfn "$root/docs" docs
export XDG_CACHE_HOME=$TEST_TMPDIR/cache
"$root/tests/train/keep_rates" "$XDG_CACHE_HOME"
ran=0
while IFS= read -r line; do
  command=${line#*:train -- }
  [[ $command == *--plan_only* ]] || command+=" --steps=2 --sample_tokens=0 --eval_every=0"
  echo "train $command"
  eval "\"$train\" $command" >>log 2>&1 || {
    tail -5 log
    echo "docs/costs.md says: $line"
    exit 1
  }
  ran=$((ran + 1))
done < <(grep -E '^    \./bazelw run //models/gpt:train -- ' "$page")
((ran == 2)) || { echo "the page has $ran commands"; exit 1; }
if grep -F 'error:' log; then exit 1; fi

# A command must print the label and the next two cells of each table row that is not measured.
shown=0
while IFS= read -r row; do
  shown=$((shown + 1))
  part=$(sed -E 's/^ +//' <<<"$row" | cut -c1-56)
  grep -qF -- "$part" log || { echo "no command prints: $part"; exit 1; }
done < <(grep -E '^    (units? |gathers |reductions |other |all-|reduce-scatter )' "$page")
((shown >= 11)) || { echo "the page shows $shown rows"; exit 1; }

sed -n '/^```cluster$/,/^```$/p' "$page" | sed '1d;$d' >cluster.textproto
"$train" --plan_only --ranks=8 --plan=docs/plans/hybrid_sharded.textproto \
  --cluster=cluster.textproto >log
grep -qF '(for 2 hosts of 4 ranks)' log || { cat log; exit 1; }
