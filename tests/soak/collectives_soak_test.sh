#!/bin/bash
# A short soak with each backend.
set -euo pipefail
for backend in shm tcp hierarchical; do
  hosts=
  [[ $backend != hierarchical ]] || hosts=a,a,b,b
  tools/launch/launch --nproc=4 tests/soak/collectives_soak --operations=20000 --backend=$backend \
    --hosts=$hosts >"$TEST_TMPDIR/out" || { cat "$TEST_TMPDIR/out"; exit 1; }
  cat "$TEST_TMPDIR/out"
  grep -qE 'all-to-all +[1-9]' "$TEST_TMPDIR/out" || { echo "no table"; exit 1; }
done
