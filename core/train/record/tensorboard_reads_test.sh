#!/bin/bash
# TensorBoard reads our event files, and takes the steps of a resumed run from the later file. Needs
# Python's package tensorboard; PYTHON names an interpreter that has it (default python3).
set -euo pipefail
python=${PYTHON:-python3}
if ! "$python" -c "import tensorboard" >/dev/null 2>&1; then
  echo "skipped: $python has no package tensorboard"
  exit 0
fi
mkdir "$TEST_TMPDIR/run"
core/train/record/write_events "$TEST_TMPDIR/run"
"$python" core/train/record/tensorboard_reads_test.py "$TEST_TMPDIR/run"
