#!/bin/bash
# Two hosts with a relay between them that flips a bit of a text: in a tensor, in a Plan, and in a
# value of the rendezvous. Which of these a rank notices depends on --integrity.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
relay=$PWD/tests/network/relay
ranks=$PWD/tests/network/relay_ranks
cd "$TEST_TMPDIR"

# relayed_hosts: makes two hosts, a (10.77.0.1) and b (10.77.0.2), without a link. Each has one to a
# namespace of its own, relay_a or relay_b, which has the other host's address: a program that enters
# both is a relay between them (relay.cc). Listening sockets of a for which it does not name a port
# have one of relayed_ports.
relayed_hosts() {
  host_a=tessera-a-$$ host_b=tessera-b-$$ relay_a=tessera-ra-$$ relay_b=tessera-rb-$$
  relayed_ports=40000-40063
  local host
  trap 'for host in "$host_a" "$host_b" "$relay_a" "$relay_b"; do ip netns del "$host" 2>/dev/null; done' EXIT
  for host in "$host_a" "$host_b" "$relay_a" "$relay_b"; do ip netns add "$host" || return 1; done
  ip link add link0 netns "$host_a" type veth peer name link0 netns "$relay_a" || return 1
  ip link add link0 netns "$host_b" type veth peer name link0 netns "$relay_b" || return 1
  for host in "$host_a" "$host_b" "$relay_a" "$relay_b"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set link0 up
  done
  ip -n "$host_a" address add 10.77.0.1/24 dev link0
  ip -n "$relay_a" address add 10.77.0.2/24 dev link0
  ip -n "$host_b" address add 10.77.0.2/24 dev link0
  ip -n "$relay_b" address add 10.77.0.1/24 dev link0
  ip netns exec "$host_a" sh -c "echo '${relayed_ports/-/ }' >/proc/sys/net/ipv4/ip_local_port_range"
}

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
      MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 TESSERA_SECRET=relayed-hosts-secret \
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
