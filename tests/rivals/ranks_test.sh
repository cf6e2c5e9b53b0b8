#!/bin/bash
# The tables of tests/rivals/ranks are made from the rounds in a file, without PyTorch.
set -euo pipefail
ranks=$PWD/tests/rivals/ranks
cd "$TEST_TMPDIR"
if ! python3 --version >/dev/null 2>&1; then
  echo "skipped: needs python3"
  exit 0
fi

# round STEP OTHERS: prints a round with this step of ours under ddp, in seconds.
round() {
  local strategies='"ddp": {"step": '$1', "computation": 0.1, "communication": 0.05},
    "fsdp": {"step": 0.2, "computation": 0.16, "communication": 0.08}'
  tr -d '\n' <<<"{\"shape\": \"1x64\", \"others\": $2,
    \"shm\": {\"processor\": \"a processor\", $strategies}, \"tcp\": {$strategies},
    \"torch\": {\"version\": \"2\", \"ddp\": 0.22, \"fsdp2\": 0.5, \"fsdp1\": 0.46, \"alone\": 0.2}}"
  echo
}
for step in 0.9 0.11 0.01; do round "$step" 0.1; done >results
round 5 0.25 >>results
"$ranks" --rounds=0 --no_memory --results=results >table
cat table
tr -s ' ' <table >cells
grep -qF "left out as too busy (--busy): 1 of 4 rounds" cells
grep -qF "a processor, of whose cores other programs used 0.1 to 0.1; PyTorch 2;" cells
grep -qF "medians of rounds: 3 at 1x64" cells
grep -qF "1x64 ddp 110.0 100.0 1.100 <= 1.2 50.0 80% 110.0 80% ddp 220 2.00 >= 1.5 200.0 0.50" cells
grep -qF "1x64 fsdp 200.0 160.0 1.250 <= 1.3 80.0 50% 200.0 50% fsdp2 500, fsdp1 460 2.30 >= 2.2 200.0 0.80" cells

"$ranks" --help | grep -q -- --short
for flag in --shapes=3x3 --rounds=-1 --steps=0 --nothing; do
  if "$ranks" "$flag" 2>err; then exit 1; fi
  grep -q "error: " err
done
