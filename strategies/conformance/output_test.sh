#!/bin/bash
# Regression: a closed pipe ended the program without a line, and a full disk was not noticed.
set -euo pipefail
conformance=$PWD/strategies/conformance/conformance
cd "$TEST_TMPDIR"
mkfifo pipe
exec 3<>pipe 4>pipe 5>/dev/full 3>&-
for output in 4 5; do
  code=0
  "$conformance" --models=mlp --ranks=1 ddp >&$output 2>err || code=$?
  [[ $code == 1 && $(cat err) == "error: cannot write to stdout: "* && $(wc -l <err) == 1 ]] && continue
  echo "descriptor $output: code $code"
  cat err
  exit 1
done

# Regression: under `bazel run` a relative path started at the repository, not where the user stood.
mkdir user && cp -L "$(dirname "$conformance")/../ddp/ddp.so" user/mine.so
BUILD_WORKING_DIRECTORY=$PWD/user "$conformance" --models=mlp --ranks=1 ./mine.so >out
grep -q "(defaults) .* passed on mlp" out
# Regression: a flag without its value checked nothing, and reported success.
for flag in --models --models= --ranks --try; do
  code=0
  "$conformance" ddp $flag >out 2>err || code=$?
  [[ $code == 1 && $(cat err) == "error: ${flag%=} needs a value: "* && $(wc -l <err) == 1 ]] && continue
  echo "$flag: code $code"
  cat out err
  exit 1
done
# Each model of a set is checked in one shard, and the fourth one of three models has nothing to check.
for shard in 0 1 2 3; do
  TEST_TOTAL_SHARDS=4 TEST_SHARD_INDEX=$shard "$conformance" --models=mlp,ratings,picture_mlp --ranks=1 ddp
done >out
checked=$(sed -nE 's/^ddp .* passed on (.*), ranks 1 in .*/\1/p' out | tr '\n' ' ')
[[ $checked == "mlp ratings picture_mlp " ]] || { cat out; exit 1; }
code=0
TEST_TOTAL_SHARDS=4 TEST_SHARD_INDEX=4 "$conformance" --models=mlp --ranks=1 ddp >out 2>err || code=$?
[[ $code == 1 && $(cat err) == "error: TEST_SHARD_INDEX is '4' and TEST_TOTAL_SHARDS '4': there is no such shard" ]]
