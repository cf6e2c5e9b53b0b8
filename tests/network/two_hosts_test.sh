#!/bin/bash
# Ranks on two hosts that a network joins: what is counted is what its interfaces count.
set -euo pipefail
source tests/network/two_hosts.sh
bench=$PWD/tools/comm_bench/comm_bench
plain_sockets=$PWD/tests/network/plain_sockets
cd "$TEST_TMPDIR"
if ! command -v ip >/dev/null || ! command -v tc >/dev/null || ! two_hosts 2>/dev/null; then
  echo "skipped: needs root, network namespaces, and ip and tc of iproute2"
  exit 0
fi

# compare RANKS BACKEND: runs it, and compares what went over the link with what was counted.
compare() {
  local before_a before_b counted measured
  before_a=$(bytes_sent "$host_a") before_b=$(bytes_sent "$host_b")
  on_two_hosts "$1" "$bench" -b 64K -e 1M -f 4 -n 3 -w 1 --json=table.json >out
  grep -q "^# $((2 * $1)) ranks, $2\$" out || { cat out && return 1; }
  counted=$(sed -n 's/.*"network_bytes": \([0-9]*\).*/\1/p' table.json)
  measured=$(($(bytes_sent "$host_a") - before_a + $(bytes_sent "$host_b") - before_b))
  # The link takes segments of up to 64 KiB whole: it counts few headers.
  echo "$2: counted $counted, the link $measured: a ratio of" \
    "$(awk "BEGIN { printf \"%.4f\", $measured / $counted }")"
  ((measured * 100 > counted * 97 && measured * 100 < counted * 103))
}

compare 1 tcp
compare 2 hierarchical

# Plain sockets, which overlap_bench compares with.
on_two_hosts 1 "$plain_sockets" 65536 >out
grep -q '^ plain sockets *65536 ' out || { cat out && exit 1; }
