#!/bin/bash
# Two ranks that are processes: the table, its rows, and bad input.
set -euo pipefail
launch=$PWD/tools/launch/launch
bench=$PWD/tools/comm_bench/comm_bench
cd "$TEST_TMPDIR"
fail() {
  echo "$*"
  cat out err
  exit 1
}

"$launch" --nproc=2 "$bench" -b 8 -e 256K -f 32 -n 2 -w 1 --json=table.json >out 2>err ||
  fail "it failed"
# Sizes of 8, 256, 8192 and 262144 bytes of six operations, and a barrier.
[[ $(grep -cE '^\[0\]  [a-z-]+ +[0-9]+ ' out) == 25 ]] || fail "not 25 rows"
grep -q '^\[1\]' out && fail "only rank 0 prints the table"
# Column 10 of each row is the number of wrong elements.
[[ $(awk '$1 == "[0]" && $2 ~ /^[a-z]/ && $11 != 0' out | wc -l) == 0 ]] || fail "elements are wrong"
grep -qE '^\[0\]  barrier +0 +0 +none +none +-1 +[0-9.]+ +0\.00 +0\.00 +0$' out ||
  fail "a barrier moves no bytes"
[[ $(grep -c '"algbw"' table.json) == 41 ]] || fail "table.json is not whole"

# Regression: under `bazel run` a relative path started at the folder of the runfiles.
mkdir user
BUILD_WORKING_DIRECTORY=$PWD/user "$bench" --operations=barrier -n 1 -w 0 --json=table.json \
  >out 2>err && [[ -s user/table.json ]] || fail "the table is not in the user's folder"

# Memory bounds operations whose data caches do not hold.
"$launch" --nproc=2 "$bench" --operations=all-reduce -b 32K -e 32M -f 1024 -n 1 -w 1 --nocheck \
  --bound --json=table.json >out 2>err || fail "--bound"
grep -qE '^\[0\]  all-reduce +32768 .* N/A +- .* N/A +-$' out || fail "a bound within caches"
grep -qE '^\[0\]  all-reduce +33554432 .* N/A +[0-9]+% .* N/A +[0-9]+%$' out || fail "no bound"
[[ $(grep -c '"bound_seconds": [0-9]' table.json) == 2 ]] || fail "no bound in table.json"

# An operation beside computation.
"$launch" --nproc=2 "$bench" --operations=all-reduce,all-gather --overlap -b 4K -e 256K -f 64 -n 3 \
  -w 1 >out 2>err || fail "--overlap"
[[ $(grep -cE '^\[0\]  all-[a-z]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +-?[0-9]+% +-?[0-9]+% +[0-9.]+$' \
  out) == 4 ]] || fail "not 4 rows of --overlap"

for private in "" --noshared --backend=tcp; do
  for type in f64 bf16 f16 i32 i64 u8; do
    "$launch" --nproc=3 "$bench" -b 64 -e 64K -f 32 -n 1 -w 0 -d $type $private >out 2>err ||
      fail "$type $private"
  done
done

# Digests, whose cost this program measures.
for integrity in control all none; do
  for backend in "--backend=tcp" "--hosts=a,a,b,b"; do
    "$launch" --nproc=4 "$bench" -b 64 -e 1M -f 128 -n 1 -w 0 --integrity=$integrity $backend >out 2>err ||
      fail "--integrity=$integrity $backend"
  done
done
# shellcheck disable=SC2016  # the rank expands it
"$launch" --nproc=2 sh -c 'exec "$0" -e 64 --backend=tcp $([ "$RANK" = 0 ] || echo --integrity=all)' "$bench" \
  >out 2>err && fail "ranks have different --integrity"
grep -q 'error: rank 0 has no --integrity, and rank 1 has --integrity=all: give all ranks the same$' err ||
  fail "no line names the ranks with different --integrity"

for hosts in a,a,b,b a,b,b,a; do
  "$launch" --nproc=4 "$bench" -b 64 -e 64K -f 32 -n 1 -w 0 --hosts=$hosts >out 2>err ||
    fail "--hosts=$hosts"
  grep -q '# 4 ranks, hierarchical' out || fail "--hosts=$hosts: not hierarchical"
done
grep -q '# note: .*power of two' out || fail "no note on the order"

# A rank that aborts, and one that is late, in one of several groups of operations.
for backend in shm tcp hierarchical; do
  hosts=
  if [[ $backend == hierarchical ]]; then hosts=--hosts=a,a,b,b; fi
  "$launch" --nproc=4 "$bench" -e 64K --backend=$backend $hosts --fault=3:20:fail >out 2>err &&
    fail "$backend: no fault"
  grep -q 'error: .* injected fault' err || fail "$backend: the error does not name the fault"
  "$launch" --nproc=4 "$bench" -e 64K --backend=$backend $hosts --fault=3:20:30 --timeout=1 \
    >out 2>err && fail "$backend: nobody missed rank 3"
  grep -qE '(rank 3|3 of the job).* did not come within 1' err || fail "$backend: rank 3 is not named"
done

# A signal ends all ranks with one line, and with the code that shells give it. Job control lets a
# process in the background take SIGINT.
set -m
for run in "shm INT 130" "tcp INT 130" "hierarchical TERM 143"; do
  read -r backend signal expected <<<"$run"
  hosts=
  if [[ $backend == hierarchical ]]; then hosts=--hosts=a,a,b,b; fi
  "$launch" --nproc=4 "$bench" --operations=all-reduce -b 64K -e 64K -n 100000000 \
    --backend=$backend $hosts >out 2>err &
  for ((i = 0; i < 600; ++i)); do
    grep -q "ranks, $backend" out && break
    sleep 0.05
  done
  kill -$signal $!
  code=0
  wait $! || code=$?
  [[ $code == "$expected" ]] || fail "$backend: SIG$signal ended it with code $code"
  [[ $(wc -l <err) == 1 ]] || fail "$backend: not one line"
  grep -qE "^\[0\] error: .*stopped by SIG$signal$" err || fail "$backend: the signal is not named"
done
set +m

# One line each, from the first rank that fails.
for bad in "-b 0" "-e 4X" "-f 1" "-n 0" "-d f8" "-o mean" "-r 2" "--operations=alltoall" "--backend=none" "--integrity=some" "--backend=hierarchical" "--hosts=a" "--fault=2:1:fail" "--fault=1:0:1" "--fault=1:1:late" "--json=/nonexistent/x" "--overlap --bound" "--overlap --json=x"; do
  # shellcheck disable=SC2086  # a flag and its value
  "$launch" --nproc=2 "$bench" -e 8 $bad >out 2>err && fail "$bad was taken"
  grep -qE '^\[[01]\] error: ' err || fail "$bad: no line names the cause"
done
# Regression: with a closed pipe or a full disk it ran to its end and returned 0.
mkfifo pipe
exec 3<>pipe 4>pipe 5>/dev/full 3>&-
for output in 4 5; do
  code=0
  timeout 30 "$bench" --operations=all-reduce -b 64K -e 64K -n 100000000 >&$output 2>err || code=$?
  [[ $code == 1 && $(cat err) == "error: cannot write to stdout: "* && $(wc -l <err) == 1 ]] ||
    fail "descriptor $output: code $code"
done
exec 4>&- 5>&-

"$bench" --help >out || fail "no help"
grep -q -- '--operations=NAME' out || fail "help does not name every flag"
