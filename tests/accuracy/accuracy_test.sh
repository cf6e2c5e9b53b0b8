#!/bin/bash
# tests/accuracy/accuracy draws settings, and makes its tables and its page from recorded draws.
# docs/accuracy.md is the page of the records in draws.
set -euo pipefail
folder=$PWD/tests/accuracy
accuracy=$folder/accuracy
page=$PWD/docs/accuracy.md
export PYTHONDONTWRITEBYTECODE=1
cd "$TEST_TMPDIR"
if ! python3 --version >/dev/null 2>&1; then
  echo "skipped: needs python3"
  exit 0
fi

"$folder/judge_test.py"

# The page of a recorded draw, and the same figures in aligned tables.
record=$folder/testdata/record.json
"$accuracy" --recorded="$record" --page=page.md >table
sed '1,/^## Draw/{/^## Draw/!d}' page.md | diff - "$folder/testdata/draw.md"
cat table
tr -s ' ' <table >cells
grep -qxF "This draw does not hold." cells
grep -qxF "mean absolute error 12.6 % <= 5 % does not hold" cells
grep -qxF "fsdp 220.0 ms 200.0 ms +10.0 % 1.0 % no: bytes repeated after 7.5 %" cells
grep -qxF "sliced no result" cells
# Only rows of tables may be longer.
if grep -vE '^\||  ' page.md table | grep -E ':.{101}'; then exit 1; fi

# The page in the repository has no figure that is not in a record.
shopt -s nullglob
draws=("$folder"/draws/*.json)
recorded=$(IFS=,; echo "${draws[*]}")
"$accuracy" --recorded="$recorded" --page=docs.md >/dev/null
diff docs.md "$page" || { echo "docs/accuracy.md is not the page of its records"; exit 1; }

# The settings of a seed. With them in the file of --json, another draw is refused.
"$accuracy" --seed=3 --draw_only >first
"$accuracy" --seed=3 --draw_only | cmp - first
if "$accuracy" --seed=4 --draw_only | cmp -s - first; then exit 1; fi
(($(grep -c '^Setting ' first) == 10))
for network in 'one process' '2 ranks, shm' '2 ranks, tcp' '2 hosts at 1 Gbit/s' \
  '2 hosts at 200 Mbit/s' '4 ranks, shm' '4 ranks, tcp'; do
  grep -qE "^Setting [0-9]+: (gpt|mlp),.* ?$network$" first || { echo "no $network"; exit 1; }
done

# fails TEXT FLAG...: these flags are refused in one line that contains the text.
fails() {
  local text=$1 code=0
  shift
  "$accuracy" "$@" >out 2>err || code=$?
  ((code == 2)) || { echo "$*: exit code $code"; exit 1; }
  [[ $(wc -l <err) == 1 && $(<err) == "error: "*"$text"* ]] || { cat err; exit 1; }
}
fails 'give --seed'
fails 'unrecognized arguments: --nothing' --nothing
fails "'x' is neither" --seed=x
fails "'-1' is neither" --seed=-1
fails '--rounds is 2 or more' --seed=1 --rounds=1
fails 'invalid int value' --seed=1 --rounds=many
fails '--draw_only needs --seed' --draw_only --recorded="$record"
fails '--short has a setting of its own' --short --seed=1
fails 'there is no folder' --recorded="$record" --page=nowhere/page.md
fails 'cannot read the record nowhere' --recorded=nowhere
echo '{"format": 0}' >old.json
fails 'has format 0, not 1' --recorded=old.json
fails '3 draws at most' --seed=1 --recorded="$record,$record,$record"
fails 'holds another draw, with seed 5 instead of 6' --seed=6 --rounds=2 --json="$record"
"$accuracy" --help >help
grep -q -- --recorded help
