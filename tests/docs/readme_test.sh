#!/bin/bash
# Runs every training command of README.md and tools/train/README.md in order, in one folder, with
# few steps.
set -euo pipefail
root=$PWD
cd "$TEST_TMPDIR"
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
ln -s "$root/docs" docs
for ((i = 0; i < 400; i++)); do echo "Line $i of a text of one's own."; done >my.txt
export XDG_CACHE_HOME=$TEST_TMPDIR/cache
"$root/tests/train/keep_rates" "$XDG_CACHE_HOME"

ran=0
while IFS= read -r line; do
  command=${line#*run //models/}
  program=$root/models/${command%%:train*}/train
  command=${command#*:train}
  command=${command%%#*}
  if [[ ($program == */vgg/train || $program == */picture_mlp/train) && $command != *--data=* && ! -d /usr/share/datasets/fashion-mnist ]]; then
    echo "not run: $line needs Debian's dataset-fashion-mnist"
    continue
  fi
  # Hundreds of steps take minutes.
  command=$(sed -E 's/--steps=500/--steps=2/; s/--steps=1000/--steps=3/' <<<"${command#*-- }")
  [[ $command == *--* ]] || command=--steps=2
  echo "train $command"
  eval "\"$program\" $command" >log 2>&1 || { tail -5 log; echo "a README says: $line"; exit 1; }
  ran=$((ran + 1))
done < <(grep -hE '^    \./bazelw run //models/[a-z_]+:train' "$root"/{,tools/train/}README.md)
((ran >= 6)) || { echo "only $ran commands were found"; exit 1; }
[[ $(wc -l <my_run/metrics.jsonl) == 3 ]] || { echo "my_run did not go on to step 3"; exit 1; }
grep -qx 'runs/' "$root/.gitignore" || { echo "git does not ignore runs/"; exit 1; }
compgen -G 'runs/gpt-*/checkpoints/step_00000002' >/dev/null || { echo "the first command left no run"; exit 1; }
