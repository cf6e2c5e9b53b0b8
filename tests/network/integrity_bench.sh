#!/bin/bash
# The cost of digests between two emulated hosts of one rank each, which a link of 1 Gbit/s joins: how
# long an all-reduce in place and a training step (fsdp, 0.4 million parameters) take with each
# --integrity, in alternating rounds. Prints medians: the time without digests, and the ratios of the
# others to it.
#   integrity_bench [ROUNDS]
set -euo pipefail
emulate=$PWD/tools/emulate/emulate
bench=$PWD/tools/comm_bench/comm_bench
train=$PWD/models/gpt/train
rounds=${1:-15}
times=$(mktemp)
runs=$(mktemp -d)

# measure ROUND INTEGRITY FLAG...: appends lines of a round, an option, bytes and microseconds.
measure() {
  "$emulate" -- "$bench" --operations=all-reduce --nocheck --integrity="$2" "${@:3}" |
    awk -v round="$1" -v integrity="$2" '$1 == "all-reduce" { print round, integrity, $2, $11 }' >>"$times"
}

# measure_steps ROUND INTEGRITY: appends a line with the median time of a step.
measure_steps() {
  "$emulate" -- "$train" --data=synthetic --strategy=fsdp --integrity="$2" --out="$runs/$1$2" --steps=60 \
    --set=model.layers=2,model.heads=4,model.channels=128,model.context=64 --sequence=64 --batch=8 \
    --sample_tokens=0 --eval_every=0 --save_every=0 >/dev/null
  tail -n 50 "$runs/$1$2/metrics.jsonl" | sed 's/.*"step_seconds":\([0-9.e+-]*\).*/\1/' | sort -g |
    awk -v round="$1" -v integrity="$2" 'NR == 25 { print round, integrity, "step", $1 * 1e6 }' >>"$times"
}

options=(none control all)
for ((round = 0; round < rounds; ++round)); do
  for ((i = 0; i < 3; ++i)); do
    option=${options[(round + i) % 3]}
    measure "$round" "$option" -b 8 -e 32K -f 8 -n 2000 -w 200
    measure "$round" "$option" -b 256K -e 16M -f 8 -n 5 -w 1
    measure_steps "$round" "$option"
  done
done

echo "# all-reduce between two hosts, $rounds rounds, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
awk -v rounds="$rounds" '
  function median(values, count,   i, j, value) {
    for (i = 1; i < count; ++i) {
      value = values[i]
      for (j = i; j > 0 && values[j - 1] > value; --j) values[j] = values[j - 1]
      values[j] = value
    }
    return count % 2 ? values[(count - 1) / 2] : (values[count / 2 - 1] + values[count / 2]) / 2
  }
  !($3 in seen) { seen[$3] = 1; sizes[size_count++] = $3 }
  { time[$1, $2, $3] = $4 }
  END {
    printf "%12s %14s %10s %10s\n", "bytes", "none (us)", "control", "all"
    for (s = 0; s < size_count; ++s) {
      size = sizes[s]
      for (r = 0; r < rounds; ++r) {
        none[r] = time[r, "none", size]
        control[r] = time[r, "control", size] / none[r]
        all[r] = time[r, "all", size] / none[r]
      }
      printf "%12s %14.1f %10.3f %10.3f\n", size, median(none, rounds), median(control, rounds),
        median(all, rounds)
    }
  }' "$times"
rm -r "$times" "$runs"
