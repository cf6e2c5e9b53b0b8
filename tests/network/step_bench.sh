#!/bin/bash
# How much of a training step's communication is hidden between two emulated hosts of one rank each,
# which a link of 1 Gbit/s joins.
set -euo pipefail
emulate=$PWD/tools/emulate/emulate
bench=$PWD/tests/plans/step_benchmark
flags=("$@")
if ((${#flags[@]} == 0)); then flags=(--shapes=4x256 --rounds=5); fi
"$emulate" -- "$bench" "${flags[@]}"
