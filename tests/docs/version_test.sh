#!/bin/bash
# version_test.sh PROGRAM...: every program for users prints the version in core/text/version.h, and
# names --version in --help; NEWS.md begins with this version.
set -euo pipefail
# The sources themselves, to which runfiles are links.
root=$(dirname "$(readlink -f "$0")")/../..
failed=0
fail() {
  echo "$1"
  failed=1
}

version=$(sed -nE 's/^inline constexpr char kVersion\[\] = "([0-9]+\.[0-9]+\.[0-9]+)";$/\1/p' core/text/version.h)
[[ -n $version ]] || fail "core/text/version.h has no version"
newest=$(sed -nE 's/^## ([^ ,]+).*/\1/p' NEWS.md)
newest=${newest%%$'\n'*}
[[ $newest == "$version" ]] || fail "NEWS.md begins with version '$newest', not '$version'"

for program in "$@"; do
  # The exit code ends the text, because $(...) drops newlines.
  printed=$("$program" --version 2>&1; echo "exit code $?")
  [[ $printed == "tessera $version"$'\n'"exit code 0" ]] || fail "$program --version: $printed"
  help=$("$program" --help) || fail "$program --help: exit code $?"
  grep -qE '^  --version  +print the version' <<<"$help" || fail "$program --help has no --version"
done

# No program is forgotten: each source with a main function lies in the folder of one that was passed.
found=0
while read -r source; do
  source=${source#"$root"/}
  [[ " $*" == *" ${source%/*}/"* ]] || fail "no program of ${source%/*} is tested, which has $source"
  found=$((found + 1))
done < <(grep -rlE --include='*.cc' '^int main\(' "$root"/{collectives,core,models,strategies,tools} |
  grep -vE '/testing/|_benchmark\.cc$')
((found == $#)) || fail "$# programs are tested, and $found sources have a main function"
exit $failed
