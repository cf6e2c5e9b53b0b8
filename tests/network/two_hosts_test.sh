#!/bin/bash
# Ranks on two hosts that a network joins: what is counted is what its interfaces count.
set -euo pipefail
source tests/network/emulated_hosts.sh
bench=$PWD/tools/comm_bench/comm_bench
plain_sockets=$PWD/tests/network/plain_sockets
cd "$TEST_TMPDIR"
need_emulated_hosts

# compare RANKS BACKEND: runs it, and compares what went over the links with what was counted.
# shellcheck disable=SC2016  # expanded by the ranks
compare() {
  local counted measured
  "$emulate" --ranks_per_host="$1" -- sh -c '"$@" && awk "/link0:/ { print \$10 }" /proc/net/dev >sent$RANK' \
    sh "$bench" -b 64K -e 1M -f 4 -n 3 -w 1 --json=table.json >out
  grep -q "^# $((2 * $1)) ranks, $2\$" out || { cat out && return 1; }
  counted=$(sed -n 's/.*"network_bytes": \([0-9]*\).*/\1/p' table.json)
  measured=$(($(<sent0) + $(<sent"$1")))
  # A link takes segments of up to 64 KiB whole: it counts few headers.
  echo "$2: counted $counted, the links $measured: a ratio of" \
    "$(awk "BEGIN { printf \"%.4f\", $measured / $counted }")"
  ((measured * 100 > counted * 97 && measured * 100 < counted * 103))
}

compare 1 tcp
compare 2 hierarchical

# Plain sockets, which overlap_bench compares with.
"$emulate" -- "$plain_sockets" 65536 >out
grep -q '^ plain sockets *65536 ' out || { cat out && exit 1; }
