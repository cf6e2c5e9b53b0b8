#!/bin/bash
# Four ranks on two hosts that a network of 1 Gbit/s joins train by strategies as one process does:
# with its losses, and with the memory and the bytes that were predicted. Of three heads, the last of
# four ranks that share a model has none; 257 bytes of vocabulary do not divide either.
set -euo pipefail
source tests/network/emulated_hosts.sh
train=$PWD/models/gpt/train compare=$PWD/tools/compare/compare judge=$PWD/tests/accuracy
model=("--data=$PWD/README.md" --set=model.layers=2,model.heads=3,model.channels=48,model.context=64
  --sequence=64 --batch=8 --optimizer=sgd)
flags=("${model[@]}" --lr=0.1 --clip_norm=0 --sample_tokens=0 --eval_every=0 --save_every=0)
tensors=(tensor tensor:degree=4 tensor:degree=4,sequence=true)
cd "$TEST_TMPDIR"
need_emulated_hosts

# losses FOLDER: prints those of a run, one per line.
losses() { sed -n 's/.*"loss":\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl"; }

# trains_as_alone DEVICE STEPS DISTANCE STRATEGY...: checks the losses of runs with these strategies.
trains_as_alone() {
  local device=$1 steps=$2 most=$3 strategy options
  local run=("${flags[@]}" "--device=$device" "--steps=$steps")
  "$train" "${run[@]}" --threads=1 "--out=alone.$device" >/dev/null
  losses "alone.$device" >expected
  (($(wc -l <expected) == steps))
  for strategy in "${@:4}"; do
    options=${strategy#"${strategy%%:*}"}
    "$emulate" --hosts=2 --ranks_per_host=2 -- "$train" "${run[@]}" \
      --strategy="${strategy%%:*}" --strategy_options="${options#:}" \
      --out="$strategy.$device" >out
    grep -q "; 4 ranks, hierarchical" out || { cat out && exit 1; }
    losses "$strategy.$device" | paste - expected |
      awk -v name="$strategy on $device" -v steps="$steps" -v most="$most" '
        { distance = $1 / $2 - 1; if (distance < 0) distance = -distance }
        distance > largest { largest = distance }
        END {
          printf "%s: %d losses, those of one process to %.1e\n", name, NR, largest
          exit NR != steps || largest > most
        }'
  done
}

trains_as_alone cpu 20 1e-5 ddp fsdp fsdp:replicas=2 "${tensors[@]}"
trains_as_alone reference 4 1e-10 "${tensors[@]}"

# Memory, calls and bytes are what was predicted.
if ! python3 --version >/dev/null 2>&1; then
  echo "skipped: to compare memory and bytes needs python3"
  exit 0
fi
strategies=$(IFS=,; echo "ddp,${tensors[*]//,/:}")
"$emulate" --hosts=2 --ranks_per_host=2 -- "$compare" "${model[@]}" "--strategies=$strategies" \
  --steps=2 --rounds=1 --json=compared.json >out || { cat out && exit 1; }
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$judge python3 - <<'END'
import json

from judge import judge_run

comparison = json.load(open("compared.json"))
strategies = comparison["strategies"]
assert len(strategies) == 4, strategies
for strategy in strategies:
    assert strategy["outcome"] == "ran" and strategy["measured"]["collectives"], strategy
    case = judge_run(comparison, strategy["name"])
    assert case["memory_exact"] and case["bytes_exact"], strategy
    print(f"{strategy['name']}: memory, calls and bytes as planned")
END
