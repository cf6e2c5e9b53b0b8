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
for file in strategies/api strategies/api/search core/proto core/status core/text; do
  mkdir -p "tessera/$file"
  cp -L "$root/$file"/* "tessera/$file/" 2> /dev/null || true
done
export TESSERA=$PWD/tessera
export HOME=$TEST_TMPDIR
"$root/tests/train/keep_rates" "$HOME/.cache"
export COMPILER=c++
for compiler in clang++-14 clang++; do
  if command -v "$compiler" > /dev/null; then COMPILER=$compiler; fi
done
# Two plugins have the kit and the messages in common, whose objects are made once.
cat > "$TEST_TMPDIR/compile" << 'SCRIPT'
#!/bin/bash
source=${*: -1} object=${*: -2:1}
kept=$TEST_TMPDIR/kept_${source##*/}.o
case $source in
  */kit.cc | */messages.cc) ;;
  *) exec "$COMPILER" "$@" ;;
esac
if [[ -f $kept ]]; then exec cp "$kept" "$object"; fi
"$COMPILER" "$@" && cp "$object" "$kept"
SCRIPT
chmod +x "$TEST_TMPDIR/compile"
export CXX=$TEST_TMPDIR/compile
cc() { gcc "$@"; }
train() {
  "$root/models/gpt/train" --data=synthetic --set=model.layers=2 --eval_every=0 --save_every=0 \
    --sample_tokens=0 "$@"
}
conformance() { "$root/strategies/conformance/conformance" --models=gpt --ranks=1,2 "$@"; }

# Prints the blocks of the document with this title.
blocks() { awk -v title="$1" '$0 == "```" title {on = 1; next} /^```/ {on = 0} on' "$document"; }

for listing in just_enough.cc shared.cc each_block.cc replicated.c; do
  blocks "$listing" > "$listing"
  test -s "$listing"
done
blocks commands > commands
test "$(wc -l < commands)" -eq 12
while read -r command; do
  echo "+ $command"
  eval "$command"
done < commands
for plugin in just_enough.so shared.so each_block.so replicated.so; do
  nm -D --defined-only "$plugin"
done
for plugin in just_enough.so shared.so each_block.so; do
  test "$(nm -D --defined-only "$plugin" | wc -l)" -eq 1
done

# The memory limit decides how many blocks are sharded, and the strategy says what would be enough.
train --strategy=./just_enough.so --ranks=4 --plan_only --memory_limit=60MiB
if train --strategy=./just_enough.so --ranks=4 --plan_only --memory_limit=1MiB 2> error; then exit 1; fi
grep "strategy just_enough: no number of sharded blocks fits into 1048576 bytes; the smallest limit is" error

# Plans eight blocks on a slow network. Sets `peak` to bytes, and `step` to milliseconds.
plan() {
  train --ranks=4 --plan_only --cluster="$root/docs/clusters/ethernet_1g.textproto" --set=model.layers=8 \
    "$@" > planned 2>&1 || { cat planned; return 1; }
  peak=$(sed -nE 's/^peak .*\(([0-9]+) bytes\).*/\1/p' planned)
  step=$(sed -nE 's/^step ([0-9.]+) ms:.*/\1/p' planned)
  echo "plan $*: $peak bytes, $step ms"
  test -n "$peak" && test -n "$step"
}
# Whether each_block plans a step within a limit of bytes.
each_block() { plan --strategy=./each_block.so --memory_limit="$1" && test "$peak" -le "$1"; }
less() { awk "BEGIN {exit !($1 < $2)}"; }

plan --strategy=ddp
of_ddp=$peak
plan --strategy=fsdp
of_fsdp=$peak step_of_fsdp=$step
test "$of_fsdp" -lt "$of_ddp"
# The search is as fast as fsdp in the memory of fsdp, and faster half way to that of ddp.
each_block "$of_fsdp"
if less "$step_of_fsdp" "$step"; then exit 1; fi
each_block $(((of_fsdp + of_ddp) / 2))
less "$step" "$step_of_fsdp"
# The smallest limit that it names is one that it meets, and it meets none below.
if each_block 1; then exit 1; fi
smallest=$(sed -nE 's/.*strategy each_block: .* the smallest limit that was found is ([0-9]+)$/\1/p' planned)
each_block "$smallest"
if each_block $((smallest - 1)); then exit 1; fi
grep "no Plan of the search fits into $((smallest - 1)) bytes" planned
