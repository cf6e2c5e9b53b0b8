#!/bin/bash
# Four ranks on two hosts that a network of 1 Gbit/s joins train by strategies, with the losses of one
# process. Of three heads, the last of four ranks that share a model has none.
set -euo pipefail
source tests/network/emulated_hosts.sh
train=$PWD/models/gpt/train
flags=("--data=$PWD/README.md" --set=model.layers=2,model.heads=3,model.channels=48,model.context=64
  --sequence=64 --batch=8 --optimizer=sgd --lr=0.1 --clip_norm=0 --steps=20 --sample_tokens=0
  --eval_every=0 --save_every=0)
cd "$TEST_TMPDIR"
need_emulated_hosts

# losses FOLDER: prints those of a run, one per line.
losses() { sed -n 's/.*"loss":\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl"; }

"$train" "${flags[@]}" --threads=1 --out=alone >/dev/null
losses alone >expected
(($(wc -l <expected) == 20))
for strategy in ddp fsdp fsdp:replicas=2 tensor tensor:degree=4 tensor:degree=4,sequence=true; do
  options=${strategy#"${strategy%%:*}"}
  "$emulate" --hosts=2 --ranks_per_host=2 -- "$train" "${flags[@]}" --strategy="${strategy%%:*}" \
    --strategy_options="${options#:}" --out="$strategy" >out
  grep -q "; 4 ranks, hierarchical" out || { cat out && exit 1; }
  losses "$strategy" | paste - expected | awk -v strategy="$strategy" '
    { distance = $1 / $2 - 1; if (distance < 0) distance = -distance }
    distance > largest { largest = distance }
    END {
      printf "%s: %d losses, those of one process to %.1e\n", strategy, NR, largest
      exit NR != 20 || largest > 1e-5
    }'
done
