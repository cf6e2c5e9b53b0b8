#!/bin/bash
# Follows docs/writing-a-strategy.md: its listings, then its commands, in an empty folder, with clang
# where there is one.
set -euo pipefail
root=$PWD
document=$root/docs/writing-a-strategy.md
mkdir "$TEST_TMPDIR/work"
cd "$TEST_TMPDIR/work"
# The sources as they lie in the repository.
mkdir -p tessera
for file in strategies/api core/proto core/status core/text; do
  mkdir -p "tessera/$file"
  cp -L "$root/$file"/* "tessera/$file/" 2> /dev/null || true
done
export TESSERA=$PWD/tessera
export HOME=$TEST_TMPDIR
for compiler in clang++-14 clang++; do
  if command -v "$compiler" > /dev/null; then export CXX=$compiler; fi
done
cc() { gcc "$@"; }
train() {
  "$root/models/gpt/train" --data=synthetic --set=model.layers=2 --eval_every=0 --save_every=0 \
    --sample_tokens=0 "$@"
}
conformance() { "$root/strategies/conformance/conformance" --models=gpt --ranks=1,2 "$@"; }

# Prints the blocks of the document with this title.
blocks() { awk -v title="$1" '$0 == "```" title {on = 1; next} /^```/ {on = 0} on' "$document"; }

for listing in just_enough.cc replicated.c; do
  blocks "$listing" > "$listing"
  test -s "$listing"
done
blocks commands > commands
test "$(wc -l < commands)" -eq 6
while read -r command; do
  echo "+ $command"
  eval "$command"
done < commands
for plugin in just_enough.so replicated.so; do
  nm -D --defined-only "$plugin"
done
test "$(nm -D --defined-only just_enough.so | wc -l)" -eq 1

# The memory limit decides how many blocks are sharded, and the strategy says what would be enough.
train --strategy=./just_enough.so --ranks=4 --plan_only --memory_limit=60MiB
if train --strategy=./just_enough.so --ranks=4 --plan_only --memory_limit=1MiB 2> error; then exit 1; fi
grep "strategy just_enough: no number of sharded blocks fits into 1048576 bytes; the smallest limit is" error
