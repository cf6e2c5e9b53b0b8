# Two emulated hosts: network namespaces, joined by a link of 1 Gbit/s. To be sourced; needs root.
PATH=$PATH:/usr/sbin:/sbin

# The secret of their jobs.
emulated_secret=of-emulated-hosts

# two_hosts: makes them, a and b; they go when the shell ends.
two_hosts() {
  host_a=tessera-a-$$ host_b=tessera-b-$$
  ip netns add "$host_a" && ip netns add "$host_b" || return 1
  trap 'ip netns del "$host_a"; ip netns del "$host_b"' EXIT
  ip link add link0 netns "$host_a" type veth peer name link0 netns "$host_b" || return 1
  local host
  for host in "$host_a" "$host_b"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set link0 up
    tc -n "$host" qdisc add dev link0 root tbf rate 1gbit burst 256kb latency 50ms || return 1
    # Not what this machine has chosen. BBR paces packets with timers, which cost time of the cores:
    # with it, 4 % less of an all-reduce of 16 MiB was hidden.
    ip netns exec "$host" sh -c 'echo reno >/proc/sys/net/ipv4/tcp_congestion_control' 2>/dev/null ||
      true  # only times depend on it
  done
  ip -n "$host_a" address add 10.77.0.1/24 dev link0
  ip -n "$host_b" address add 10.77.0.2/24 dev link0
}

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

# need_two_hosts: the same for a benchmark, which ends with a line on what the machine lacks.
need_two_hosts() {
  command -v ip >/dev/null && command -v tc >/dev/null ||
    { echo "error: install iproute2" >&2 && exit 1; }
  two_hosts || { echo "error: emulated hosts need root" >&2 && exit 1; }
}

# bytes_sent HOST: what its side of the link has counted.
bytes_sent() { ip netns exec "$1" cat /sys/class/net/link0/statistics/tx_bytes; }

# share_cores: gives each host half of the cores that this shell may use, as hosts share none: else
# one host's communication takes time of the other's computation. A single core is shared.
share_cores() {
  local range cores=() half
  for range in $(taskset -cp $$ | sed 's/.*: //; s/,/ /g'); do
    mapfile -t -O ${#cores[@]} cores < <(seq "${range%-*}" "${range#*-}")
  done
  half=$(((${#cores[@]} + 1) / 2))
  cores_a=$(IFS=, && echo "${cores[*]:0:half}")
  cores_b=$(IFS=, && echo "${cores[*]: -half}")
}

# on_two_hosts RANKS COMMAND...: RANKS ranks on each. Shows what rank 0 prints, and the first error.
on_two_hosts() {
  local ranks=$1 rank host cores cores_a cores_b pids=() failed=0 folder
  shift
  share_cores
  folder=$(mktemp -d)
  for ((rank = 0; rank < 2 * ranks; ++rank)); do
    host=$host_a cores=$cores_a
    if ((rank >= ranks)); then host=$host_b cores=$cores_b; fi
    ip netns exec "$host" taskset -c "$cores" env RANK=$rank WORLD_SIZE=$((2 * ranks)) LOCAL_RANK=$((rank % ranks)) \
      LOCAL_WORLD_SIZE="$ranks" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 TESSERA_SECRET="$emulated_secret" \
      OMP_NUM_THREADS=1 "$@" >"$folder/out$rank" 2>"$folder/err$rank" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  cat "$folder/out0"
  if ((failed)); then cat "$folder"/err* >&2; fi
  rm -r "$folder"
  return $failed
}
