#!/bin/bash
# The benchmark of steps runs, on a small model.
set -euo pipefail
tools/launch/launch --nproc=2 tests/plans/step_benchmark --shapes=1x8,2x8 --rounds=1 \
  --model="layers: 1 channels: 16 heads: 2 vocabulary: 32 context: 16" | tee "$TEST_TMPDIR/out"
for plan in data_parallel data_parallel_tied fully_sharded; do
  (($(grep -cE "$plan.textproto +[12]x8( +[0-9.]+){4} +-?[0-9]+%$" "$TEST_TMPDIR/out") == 2))
done
if tools/launch/launch --nproc=2 tests/plans/step_benchmark --plans=nowhere 2>"$TEST_TMPDIR/err"; then
  exit 1
fi
grep -q "error: --plans: cannot read nowhere" "$TEST_TMPDIR/err"
