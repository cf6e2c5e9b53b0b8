#!/bin/bash
# Two hosts with a relay between them that flips a bit of a text: in a tensor, in a Plan, and in a
# value of the rendezvous. Which of these a rank notices depends on --integrity.
set -euo pipefail
source tests/network/two_hosts.sh
relay=$PWD/tests/network/relay
ranks=$PWD/tests/network/relay_ranks
cd "$TEST_TMPDIR"
if ! command -v ip >/dev/null || ! relayed_hosts 2>/dev/null; then
  echo "skipped: needs root, network namespaces, and ip of iproute2"
  exit 0
fi
text="Shall I compare thee to a summer's day"
changed="Shall I compare thee to a summer's dax" # by the relay
fail() {
  echo "$*"
  tail -n 5 out* err* relayed
  exit 1
}

# run MODE [FLAG]: runs both ranks past the relay. Their output is in out0 and out1, their errors in
# err0 and err1, and their exit codes in codes.
run() {
  local rank host pids=() pid
  mkfifo input
  "$relay" "$relay_b" "$relay_a" 10.77.0.1 "29500,$relayed_ports" "$text" <input >relayed 2>&1 &
  pids+=($!)
  exec 3>input
  for ((i = 0; i < 100; ++i)); do
    if grep -q ready relayed; then break; fi
    sleep 0.1
  done
  for rank in 0 1; do
    host=$host_a
    if ((rank == 1)); then host=$host_b; fi
    ip netns exec "$host" env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
      MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 TESSERA_SECRET="$emulated_secret" \
      timeout 60 "$ranks" --timeout=10 "${@:2}" "$1" "$text" >out$rank 2>err$rank 3>&- &
    pids+=($!)
  done
  codes=()
  for pid in "${pids[@]:1}"; do
    if wait "$pid"; then codes+=(0); else codes+=($?); fi
  done
  exec 3>&-
  wait "${pids[0]}" || fail "the relay failed"
  rm input
  grep -q "^changes [1-9]" relayed || fail "$*: nothing was changed on the way"
}

# Both ranks end with success, and rank 1 has got another text.
unseen() {
  run "$@"
  [[ ${codes[*]} == "0 0" ]] || fail "$*: exit codes ${codes[*]}"
  [[ $(cat out0) == "received $text" && $(cat out1) == "received $changed" ]] || fail "$*: not changed"
  echo "$*: unseen"
}

# found EXPRESSION MODE [FLAG]: the job fails, and rank 1 reports EXPRESSION in one line.
found() {
  run "${@:2}"
  [[ ${codes[0]} == 1 && ${codes[1]} == 1 ]] || fail "${*:2}: exit codes ${codes[*]}"
  for err in err0 err1; do
    [[ $(wc -l <$err) == 1 && $(cat $err) == "error: "* ]] || fail "${*:2}: $err is not one error"
  done
  grep -qE "$1" err1 || fail "${*:2}: rank 1 does not report the cause"
  echo "${*:2}: found: $(cat err1)"
}

from_rank_0='rank 0 \(process [0-9]+ on .*, 10\.77\.0\.1 port [0-9]+, .*\) sent bytes that were changed on the way; waiting in broadcast of .* \(wrong digest\)'

# By default, between hosts: values on which ranks agree are covered, tensors are not.
found "$from_rank_0" plan
unseen tensors
found "$from_rank_0" plan --integrity=control
unseen tensors --integrity=control
found "$from_rank_0" plan --integrity=all
found "$from_rank_0" tensors --integrity=all
unseen plan --integrity=none
unseen tensors --integrity=none
found "the answer of rank 0's store at 10\.77\.0\.1:29500 was changed on the way \(wrong digest\)" store
