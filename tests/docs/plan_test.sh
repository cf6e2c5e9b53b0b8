#!/bin/bash
# Runs every command of tools/plan in README.md and tools/plan/README.md. Where a README shows the
# output, the real one must have the same words in the same order: numbers and their units may differ,
# and "..." stands for lines that are left out.
set -euo pipefail
root=$PWD
cd "$TEST_TMPDIR"
export BUILD_WORKING_DIRECTORY=$TEST_TMPDIR
ln -s "$root/docs" docs
export XDG_CACHE_HOME=$TEST_TMPDIR/cache
"$root/tests/train/keep_rates" "$XDG_CACHE_HOME"

# Prints a text on one line, with N for numbers and their units.
shape() {
  sed -E 's/[0-9][0-9.,]*( ?([KMGT]i?B(\/s)?|[KMGT]?FLOP\/s|ms|us|[smhdBKMT%]))?([^A-Za-z0-9_]|$)/N\4/g
          s/[-+]N/N/g' | tr -s ' \n' ' ' | sed -E 's/N( N)+/N/g'
}

# Compares the shown output of a command, split at "...", with that in the file `log`.
compare_form() {
  local rest part
  rest=$(shape <log)
  while IFS= read -r part; do
    part=$(tr '\r' '\n' <<<"$part" | shape)
    part=${part# }
    part=${part% }
    [[ -z $part ]] && continue
    [[ $rest == *"$part"* ]] || {
      printf 'the output does not have:\n%s\nbut:\n%s\n' "$part" "$rest"
      return 1
    }
    rest=${rest#*"$part"}
  done < <(sed -E 's/^\.\.\.$/\x01/' "$1" | tr '\n\001' '\r\n')
}

ran=0 shown=0
for document in "$root"/README.md "$root"/tools/plan/README.md; do
  mapfile -t lines <"$document"
  for ((i = 0; i < ${#lines[@]}; i++)); do
    [[ ${lines[i]} == '    ./bazelw run //tools/plan'* ]] || continue
    command=${lines[i]#*//tools/plan}
    command=${command#*-- }
    echo "plan $command"
    eval "\"$root/tools/plan/plan\" $command" >log 2>err || {
      cat err
      echo "$document says: ${lines[i]}"
      exit 1
    }
    ran=$((ran + 1))
    [[ ${lines[i + 2]:-} == '```' ]] || continue
    : >shown
    for ((j = i + 3; j < ${#lines[@]}; j++)); do
      [[ ${lines[j]} == '```' ]] && break
      printf '%s\n' "${lines[j]}" >>shown
    done
    compare_form shown || { echo "$document shows another output of: ${lines[i]}"; exit 1; }
    shown=$((shown + 1))
  done
done
((ran >= 8)) || { echo "only $ran commands were found"; exit 1; }
((shown >= 3)) || { echo "only $shown outputs were compared"; exit 1; }
[[ -s plan.textproto && -s step.json ]] || { echo "a file is missing"; exit 1; }
