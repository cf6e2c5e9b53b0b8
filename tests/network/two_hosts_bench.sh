#!/bin/bash
# How long operations take between two emulated hosts of two ranks each, 1 Gbit/s apart: through
# shared memory within each host, and with TCP between all ranks.
set -euo pipefail
emulate=$PWD/tools/emulate/emulate
bench=$PWD/tools/comm_bench/comm_bench
flags=("$@")
if ((${#flags[@]} == 0)); then
  flags=(--operations=all-reduce,reduce-scatter,all-gather,broadcast -b 64K -e 16M -f 16 -n 5 -w 1)
fi
for backend in tcp hierarchical; do
  "$emulate" --ranks_per_host=2 -- "$bench" "${flags[@]}" --backend=$backend
done
