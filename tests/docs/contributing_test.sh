#!/bin/bash
# Every file and folder that CONTRIBUTING.md names is there.
set -euo pipefail
# The sources themselves, to which runfiles are links.
root=$(dirname "$(readlink -f "$0")")/../..
found=0 failed=0
while read -r path; do
  found=$((found + 1))
  [[ -e $root/$path ]] || { echo "CONTRIBUTING.md names $path, which is not there"; failed=1; }
done < <(
  # `core/ops/gelu.cc`, also as the first word of a command, and [text](docs/plans.md#heading).
  grep -oE '`[a-z._]+/[A-Za-z0-9_./-]+' CONTRIBUTING.md | tr -d '`'
  sed -nE 's/.*\]\(([^)#]+).*/\1/p' CONTRIBUTING.md
)
((found > 40)) || { echo "only $found paths were found"; exit 1; }
exit $failed
