#!/bin/bash
# Runs the command of README.md that compares strategies on emulated hosts, with few steps.
set -euo pipefail
root=$PWD
cd "$TEST_TMPDIR"
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
mkdir bazel-bin
ln -s "$root/tools" bazel-bin/tools
command=$(sed -nE 's|^    \./bazelw run //tools/emulate -- (.*compare/compare( .*)?)$|\1|p' "$root/README.md")
[[ -n $command ]] || { echo "README.md has no such command"; exit 1; }
echo "emulate $command"
if ! eval "\"$root/tools/emulate/emulate\" $command --steps=1 --batch=2 --sequence=16" >log 2>&1; then
  grep '^error: emulated hosts need' log && { echo skipped; exit 0; }
  tail -5 log
  exit 1
fi
grep -q '; 2 ranks, tcp' log || { echo "not a job of two hosts:"; head -5 log; exit 1; }
grep -q 'loss of step 2 ' log || { echo "no table:"; tail -5 log; exit 1; }
