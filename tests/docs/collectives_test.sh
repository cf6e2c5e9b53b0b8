#!/bin/bash
# Runs the commands of docs/collectives.md that start a job, with the launchers that are here.
set -euo pipefail
page=$PWD/docs/collectives.md
root=$PWD
cd "$TEST_TMPDIR"
mkdir -p bazel-bin/tools
ln -s "$root/tools/comm_bench" bazel-bin/tools/comm_bench
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
ran=0
while read -r command; do
  command=${command/'./bazelw run //tools/launch --'/"$root/tools/launch/launch"}
  launcher=${command%% *}
  if ! command -v "$launcher" >/dev/null; then
    echo "skipped, there is no $launcher: $command"
    continue
  fi
  if [[ $launcher == mpirun ]]; then command=${command/mpirun/mpirun --allow-run-as-root --oversubscribe}; fi
  echo "$command"
  $command -e 64K -n 2 >log 2>&1 || { tail log; exit 1; }
  grep -q '2 ranks' log || { echo "not a job of two ranks:"; head -5 log; exit 1; }
  ran=$((ran + 1))
done < <(grep -oE '^    (\./bazelw run //tools/launch|torchrun|mpirun|srun) .*' "$page")
((ran >= 1)) || { echo "no command was run"; exit 1; }
