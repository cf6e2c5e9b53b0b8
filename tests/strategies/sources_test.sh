#!/bin/bash
# The rules for the sources of strategies: core and models name none; ddp, fsdp, tensor and the strategies of
# docs/writing-a-strategy.md are small; a plugin exports one symbol.
set -euo pipefail
# The sources themselves, to which runfiles are links.
root=$(dirname "$(readlink -f "$0")")/../..
test -f "$root/core/plan/check.h"

failed=0
fail() {
  echo "$1"
  failed=1
}

# Matches the name of a strategy as a word or a part of a name: "ddp", "fsdp_units", "DdpPlan".
names='(^|[^a-z])(ddp|fsdp|osdp|sbp_auto|sbpauto)([^a-z]|$)|(Ddp|Fsdp|Osdp|SbpAuto)([^a-z]|$)|DDP|FSDP|OSDP|SBP-auto'
# The pattern finds the names where they must be.
grep -qE "$names" "$root/strategies/fsdp/fsdp.cc"
grep -qE "$names" <<< 'class FsdpUnits {'
for folder in core models; do
  found=$(grep -rnIE "$names" "$root/$folder" || true)
  test -z "$found" || fail "$folder names a strategy:"$'\n'"$found"
  found=$(find "$root/$folder" | sed "s#^$root/##" | grep -E "$names" || true)
  test -z "$found" || fail "a file of $folder is named after a strategy: $found"
done

# Lines of a strategy without its tests.
lines() { find "$root/strategies/$1" \( -name '*.cc' -o -name '*.h' \) ! -name '*_test.cc' -exec cat {} + | wc -l; }
for limit in ddp:80 fsdp:240 tensor:150; do
  strategy=${limit%:*}
  count=$(lines "$strategy")
  echo "$strategy: $count lines"
  test "$count" -gt 20 || fail "strategies/$strategy has no sources"
  test "$count" -le "${limit#*:}" || fail "$strategy has $count lines, and may have ${limit#*:}"
done
document=$root/docs/writing-a-strategy.md
for limit in just_enough:50 shared:50 each_block:110; do
  strategy=${limit%:*}
  count=$(awk -v title="$strategy.cc" '$0 == "```" title {on = 1; next} /^```/ {on = 0} on' "$document" | wc -l)
  echo "$strategy: $count lines"
  test "$count" -gt 20 || fail "docs/writing-a-strategy.md has no $strategy.cc"
  test "$count" -le "${limit#*:}" || fail "$strategy has $count lines, and may have ${limit#*:}"
done

for plugin in strategies/*/*.so; do
  symbols=$(nm -D --defined-only "$plugin" | awk '{print $3}')
  echo "$plugin: $symbols"
  test "$symbols" = tessera_strategy || fail "$plugin exports other symbols than tessera_strategy"
done
test "$(ls strategies/*/*.so | wc -l)" -ge 2 || fail "there are no plugins"
exit $failed
