#!/bin/bash
# How much of an operation is hidden behind computation, between two emulated hosts that a link of
# 1 Gbit/s joins: with one rank in each over TCP, and with two in each.
set -euo pipefail
source tests/network/two_hosts.sh
bench=$PWD/tools/comm_bench/comm_bench
need_two_hosts
flags=("$@")
if ((${#flags[@]} == 0)); then
  flags=(--operations=all-reduce -b 1M -e 16M -f 4 -n 9 -w 1)
fi
for ranks in 1 2; do
  on_two_hosts "$ranks" "$bench" --overlap "${flags[@]}"
done
