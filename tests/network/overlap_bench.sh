#!/bin/bash
# How much of an operation is hidden behind computation, between two emulated hosts that a link of
# 1 Gbit/s joins: with one rank in each over TCP, beside plain sockets that move the same bytes, and
# with two ranks in each.
set -euo pipefail
emulate=$PWD/tools/emulate/emulate
bench=$PWD/tools/comm_bench/comm_bench
flags=("$@")
if ((${#flags[@]} == 0)); then
  flags=(--operations=all-reduce -b 1M -e 16M -f 4 -n 9 -w 1)
fi
"$emulate" -- "$bench" --overlap "${flags[@]}"
if (($# == 0)); then
  "$emulate" -- "$PWD/tests/network/plain_sockets" $((1 << 20)) $((4 << 20)) $((16 << 20))
fi
"$emulate" --ranks_per_host=2 -- "$bench" --overlap "${flags[@]}"
