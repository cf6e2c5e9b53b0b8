#!/bin/bash
# Steps that are predicted by fixed prices, those of docs/clusters: testdata/described_steps.txt has
# what they were when somebody last looked at them. A step that differs by more than 1 % is a change
# of prices, of the simulator, or of Programs. If it is wanted, the printed table is the new file.
set -euo pipefail
train=$PWD/models/gpt/train
expected=$PWD/tests/accuracy/testdata/described_steps.txt
cd "$TEST_TMPDIR"
export XDG_CACHE_HOME=$PWD/cache

# Cluster, model, ranks and dtype of each comparison of strategies.
settings() {
  local cluster
  for cluster in a100 h100 h200 b200; do echo "$cluster gpt3_6.7b 64 bf16"; done
  echo "v100 gpt3_6.7b 64 f16"
  echo "p100 gpt3_2.7b 64 f32"
  for cluster in cpu_host ethernet_10g ethernet_1g; do echo "$cluster 124m 8 f32"; done
}

settings | while read -r cluster preset ranks dtype; do
  for strategy in ddp fsdp fsdp:reshard=no; do
    options=()
    [[ $strategy != *:* ]] || options=(--strategy_options="${strategy#*:}")
    # The exit code is not 0 if a rank does not fit in its device.
    "$train" --preset="$preset" --plan_only --nproc="$ranks" --batch="$ranks" --dtype="$dtype" \
      --cluster="$cluster" --strategy="${strategy%%:*}" "${options[@]}" >out 2>err || true
    step=$(sed -n 's/^step \([^:]*\): computation .*/\1/p' out)
    if [[ -z $step ]]; then
      echo "$strategy on $cluster has no step:"
      cat err
      exit 1
    fi
    printf '%-12s  %-9s  %3s  %-4s  %-15s  %s\n' "$cluster" "$preset" "$ranks" "$dtype" "$strategy" "$step"
  done
done >steps

paste -d '|' steps "$expected" >both
if ! awk -F '|' '
    function seconds(row,  words, n) {
      n = split(row, words, " ")
      return words[n - 1] * (words[n] == "ms" ? 0.001 : words[n] == "s" ? 1 : 0)
    }
    function name(row,  words) { split(row, words, " "); return words[1] " " words[5] }
    {
      now = seconds($1); before = seconds($2)
      same = name($1) == name($2) && before > 0 && now / before < 1.01 && now / before > 0.99
      if (!same) { print "differs: " $1 ", before: " $2; bad = 1 }
    }
    END { exit bad || NR != 27 }' both; then
  cat steps
  exit 1
fi
