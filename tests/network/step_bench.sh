#!/bin/bash
# How much of a training step's communication is hidden between two emulated hosts of one rank each,
# which a link of 1 Gbit/s joins.
set -euo pipefail
source tests/network/two_hosts.sh
bench=$PWD/tests/plans/step_benchmark
need_two_hosts
flags=("$@")
if ((${#flags[@]} == 0)); then flags=(--shapes=4x256 --rounds=5); fi
on_two_hosts 1 "$bench" "${flags[@]}"
