#!/bin/bash
# Jobs on two and three emulated hosts: their addresses and limits, what is shown of them, signals,
# and that nothing is left of them.
# shellcheck disable=SC2016  # programs of ranks, which the ranks expand
set -euo pipefail
emulate=$PWD/tools/emulate/emulate
bench=$PWD/tools/comm_bench/comm_bench
cd "$TEST_TMPDIR"
fail() {
  echo "$*"
  [[ -z ${pid:-} ]] || kill "$pid" 2>/dev/null || true # the job that still runs
  tail -n 20 out err 2>/dev/null
  exit 1
}

# can_emulate FLAG...: says why if the machine lacks what emulated hosts need.
can_emulate() {
  "$emulate" "$@" -- true 2>err && return
  grep -q '^error: emulated hosts need' err || fail "emulate $*"
  echo "skipped: $(sed 's/^error: //' err)"
  return 1
}

# Errors of the command line, which come first.
for flag in --rate=abc --hosts=0 --hosts=300 --latency=-1ms; do
  if "$emulate" $flag -- true >out 2>err; then fail "emulate $flag succeeded"; fi
  [[ $(wc -l <err) == 1 && $(<err) == "error: ${flag%%=*}"* ]] || fail "emulate $flag"
done
if (($(id -u) == 0)) && command -v setpriv >/dev/null; then
  # In a folder that every user may enter.
  folder=$(mktemp -d)
  cp "$emulate" "$folder" && chmod -R go+rX "$folder"
  (cd / && setpriv --reuid=65534 --regid=65534 --clear-groups "$folder/emulate" -- true) 2>err && fail "it needs no root"
  rm -r "$folder"
  [[ $(wc -l <err) == 1 && $(<err) == "error: emulated hosts need root"* ]] || fail "without root"
fi
can_emulate || exit 0

# Each rank has its variables, its host's name and address, and no core of another host.
"$emulate" --hosts=3 --ranks_per_host=2 -- sh -c '
  echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname) $MASTER_ADDR:$MASTER_PORT" >rank$RANK
  ip -4 -o address show link0 | grep -o "inet [0-9.]*" >>rank$RANK
  grep Cpus_allowed_list /proc/self/status >cores$RANK
  echo "shown of rank $RANK"' >out 2>err
[[ $(<out) == "shown of rank 0" ]] || fail "not only rank 0's output is shown"
[[ $(<rank0) == $'0/6 0/2 host0 10.77.0.1:29500\ninet 10.77.0.1' ]] || fail "rank 0: $(<rank0)"
[[ $(<rank5) == $'5/6 1/2 host2 10.77.0.1:29500\ninet 10.77.0.3' ]] || fail "rank 5: $(<rank5)"
if (($(nproc) >= 3)); then
  [[ ! -s err && $(<cores0) != "$(<cores2)" && $(<cores2) != "$(<cores4)" ]] || fail "hosts share cores"
else
  grep -q '^note: 3 hosts share ' err || fail "it does not say that hosts share cores"
fi

# The rate: in an all-reduce of 1 MiB each of two hosts sends 1 MiB, and each of three 4/3 as much,
# to two others that receive from two at once. The least of the times counts, since other programs
# run beside it. (HOSTS RATE, and the range of milliseconds)
while read -r hosts rate from to; do
  least=1000000
  for ((i = 0; i < 5 && least > to; ++i)); do
    "$emulate" --hosts="$hosts" --rate="$rate" -- "$bench" --operations=all-reduce -b 1M -e 1M -n 2 -w 1 \
      --nocheck >out 2>err || fail "comm_bench failed"
    time=$(awk '$1 == "all-reduce" { print int(($7 < $11 ? $7 : $11) / 1000) }' out)
    if ((time < least)); then least=$time; fi
  done
  echo "$hosts hosts, $rate: $least ms, expected $from to $to ms"
  ((least >= from && least <= to)) || fail "the rate is not kept"
done <<<'2 40mbit 209 241
3 20mbit 559 780'

# Two jobs at the same time, with the same addresses.
"$emulate" -- "$bench" -b 8 -e 8 -n 100 >out2 2>err2 &
"$emulate" -- "$bench" -b 8 -e 8 -n 100 >out 2>err || fail "one of two jobs failed"
wait $! || fail "the other of two jobs failed"

# The exit code, and the error of another rank than rank 0.
code=0
"$emulate" --hosts=3 -- sh -c 'if [ $RANK = 1 ]; then echo "error: bad luck" >&2; exit 7; fi; sleep 100' \
  >out 2>err || code=$?
[[ $code == 7 ]] || fail "exit code $code instead of 7"
[[ $(tail -n 1 err) == "[1] error: bad luck" ]] || fail "the error of rank 1 is not shown"

# Signals reach every rank. Neither namespaces nor processes are left, even after SIGKILL.
# Lists the processes in the namespaces of the last two hosts, and the descriptors of these.
in_namespaces() {
  { readlink /proc/[0-9]*/ns/net /proc/[0-9]*/fd/* || true; } 2>/dev/null | grep -Fx -f space0 -f space1
}
rank='trap "echo ended >ended$RANK; exit 143" TERM; trap "echo ended >ended$RANK; exit 130" INT
  readlink /proc/self/ns/net >space$RANK; : >up$RANK; while :; do sleep 0.05; done'
set -m # else the shell lets a job in the background ignore SIGINT
for signal in TERM INT KILL; do
  rm -f up* ended*
  "$emulate" -- sh -c "$rank" >out 2>err &
  pid=$!
  for ((i = 0; i < 200; ++i)); do
    if [[ -e up0 && -e up1 ]]; then break; fi
    sleep 0.1
  done
  [[ $(<space0) != "$(<space1)" && -n $(in_namespaces) ]] || fail "not in namespaces"
  kill -$signal $pid
  code=0
  wait $pid || code=$?
  ((code == 128 + $(kill -l $signal))) || fail "exit code $code after SIG$signal"
  if [[ $signal != KILL ]]; then [[ -e ended0 && -e ended1 ]] || fail "a rank has not got SIG$signal"; fi
  for ((i = 0; i < 100; ++i)); do
    if [[ -z $(in_namespaces) ]]; then break; fi
    sleep 0.1
  done
  [[ -z $(in_namespaces) ]] || fail "after SIG$signal a namespace is left"
done
set +m

# The latency: a connection that is refused takes a packet there and one back. The first one may wait
# for the address of the other host too.
can_emulate --latency=1ms || exit 0
"$emulate" --latency=20ms -- bash -c '
  if [[ $RANK != 0 ]]; then exit; fi
  for ((i = 0; i < 3; ++i)); do
    begin=${EPOCHREALTIME/./}
    { : 3<>/dev/tcp/10.77.0.2/9; } 2>/dev/null
    echo $((${EPOCHREALTIME/./} - begin))
  done' >out || fail "a job with a latency failed"
least=$(sort -n out | head -n 1)
echo "there and back: $least us, at least 40000 us"
((least >= 40000 && least < 80000)) || fail "the latency is not kept"
