#!/bin/bash
# tests/accuracy/accuracy --short measures a tiny setting, and makes its page again from the record.
# tests/accuracy/unseen calibrates one model and predicts another.
set -euo pipefail
programs=$PWD
accuracy=$PWD/tests/accuracy/accuracy
export PYTHONDONTWRITEBYTECODE=1
cd "$TEST_TMPDIR"
if ! python3 --version >/dev/null 2>&1; then
  echo "skipped: needs python3"
  exit 0
fi

"$accuracy" --short --rounds=2 --programs="$programs" --json=short.json --page=page.md >table
cat table
tr -s ' ' <table >cells
grep -qxF "A quick look, no draw" cells
grep -qxE "cases with a result 5 of 5 all holds" cells
grep -qxE "memory exact 5 of 5 all holds" cells
grep -qxE "calls and bytes exact 5 of 5 all holds" cells
for plan in fsdp tensor_parallel sliced; do
  grep -qE "^$plan [0-9.]+ m?s [0-9.]+ m?s [+-][0-9.]+ % [0-9.]+ % yes" cells
done

"$accuracy" --recorded=short.json --page=again.md | cmp - table
cmp page.md again.md
# A complete record is not measured again.
"$accuracy" --short --rounds=2 --programs="$programs" --json=short.json | cmp - table

"$(dirname "$accuracy")/unseen" --calibrated=1 --predicted=1 --rounds=1 --programs="$programs" >unseen
cat unseen
grep -qE '^(gpt|mlp): .*, batch [0-9]+ .*%' unseen
grep -qE '^mean absolute error [0-9.]+%, worst [0-9.]+%; aim: at most 7%$' unseen
