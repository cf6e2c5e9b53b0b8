#!/bin/bash
# tests/accuracy/osdp plans for a described network, prints records again, and is interrupted; on
# emulated hosts, if there can be any, it measures a tiny setting.
set -euo pipefail
programs=$PWD
osdp=$PWD/tests/accuracy/osdp
export PYTHONDONTWRITEBYTECODE=1
cd "$TEST_TMPDIR"
if ! python3 --version >/dev/null 2>&1; then
  echo "skipped: needs python3"
  exit 0
fi
python3 "$(dirname "$osdp")/osdp_test.py"

# run FLAG...: all verdicts may hold or not.
run() {
  local code=0
  "$osdp" --programs="$programs" "$@" >table || code=$?
  cat table
  ((code <= 1)) || { echo "$*: exit code $code"; exit 1; }
  tr -s ' ' <table >cells
}
run --short --predicted --json=record.json
grep -qxF "cases with a result 2 of 2 all holds" cells
grep -qxF "peak exact, within the limit 2 of 2 all holds" cells
grep -qxF "planned no slower than a rival 1 of 1 all holds" cells
grep -qxF "trains where only slices fit 1 of 1 all holds" cells
grep -qE "^short_2_slices 2 [0-9.]+ MiB none fits " cells
if "$osdp" --recorded=record.json >again; then code=0; else code=$?; fi
((code <= 1))
cmp again table

# An interrupt prints what is finished.
"$osdp" --programs="$programs" --predicted >table 2>progress &
for ((i = 0; i < 600; ++i)); do
  if grep -q "min left" progress; then break; fi
  sleep 0.1
done
kill -TERM $!
code=0
wait $! || code=$?
cat progress table
((code == 130)) || { echo "interrupted: exit code $code"; exit 1; }
grep -q "^stopped before .*wide_4_tight" progress
grep -qE "^embedding_2_tight +2 .*%$" table

# fails TEXT FLAG...: these flags are refused in one line that contains the text.
fails() {
  local text=$1 code=0
  shift
  "$osdp" "$@" >out 2>err || code=$?
  ((code == 2)) || { echo "$*: exit code $code"; exit 1; }
  [[ $(wc -l <err) == 1 && $(<err) == "error: "*"$text"* ]] || { cat err; exit 1; }
}
fails "there is no case 'deep_3'" --only=deep_3
fails '--cases is 1 or more' --cases=0
fails '--rounds is 1 or more' --rounds=0
fails 'there is no folder' --json=nowhere/record.json
fails 'cannot read the record nowhere' --recorded=nowhere
fails 'unrecognized arguments: --nothing' --nothing

if ! "$programs/tools/emulate/emulate" --hosts=2 -- true 2>emulation; then
  echo "not measured: $(tail -n 1 emulation)"
  exit 0
fi
run --short --rounds=2
grep -qxF "cases with a result 2 of 2 all holds" cells
grep -qxF "peak exact, within the limit 2 of 2 all holds" cells
grep -qxF "trains where only slices fit 1 of 1 all holds" cells
grep -qE "^decided by measured prices [0-2] of 2 all" cells
