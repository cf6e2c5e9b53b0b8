#!/bin/bash
# ./bazelw keeps its options in the user's home folder, also if HOME is not set, and in no folder that
# another user can prepare.
set -euo pipefail
bin=$TEST_TMPDIR/bin
mkdir -p "$bin" "$TEST_TMPDIR/home"

# A Bazel that says how it was called.
cat >"$bin/bazel" <<'EOF'
#!/bin/bash
if [[ $1 == --version ]]; then echo "bazel 4.2.3"; else echo "$@"; fi
EOF
# An account database with one entry, or none.
cat >"$bin/getent" <<'EOF'
#!/bin/bash
[[ -n ${TEST_HOME:-} ]] && echo "user:x:1:1::$TEST_HOME:/bin/sh"
EOF
chmod +x "$bin/bazel" "$bin/getent"

bazelw() {
  env -u XDG_CACHE_HOME "$@" PATH="$bin:$PATH" BAZEL="$bin/bazel" TESSERA_NO_INSTALL=1 ./bazelw info
}
expect() {
  local name=$1 expected=$2 found=$3
  [[ $found == "$expected" ]] || { echo "$name: expected '$expected', found '$found'"; exit 1; }
}

home=$TEST_TMPDIR/home
expect "HOME is set" "--bazelrc=$home/.cache/tessera/bazelrc info" "$(bazelw HOME="$home")"
rm -r "$home/.cache"
expect "no HOME" "--bazelrc=$home/.cache/tessera/bazelrc info" "$(bazelw -u HOME TEST_HOME="$home")"
error="error: HOME is not set, and user $(id -u) has no home folder: set HOME to a folder of yours"
if found=$(bazelw -u HOME 2>&1); then echo "no home folder: ended with 0"; exit 1; fi
expect "no home folder" "$error" "$found"

# Data sets are installed if they can be. If not, Bazel runs without them, and no later run tries
# again.
checkout=$TEST_TMPDIR/checkout
mkdir -p "$checkout/third_party"
cp bazelw "$checkout"
sed "s#\"/[^ ]* dataset-fashion-mnist\"#\"$TEST_TMPDIR/data dataset-fashion-mnist\"#" \
  third_party/debian.sh >"$checkout/third_party/debian.sh"
cat >"$bin/apt-get" <<'EOF'
#!/bin/bash
echo "${!#}" >>"$TEST_TMPDIR/apt_log" # the last argument
[[ -n ${NETWORK:-} ]] && touch "$TEST_TMPDIR/data"
EOF
cat >"$bin/sudo" <<'EOF'
#!/bin/bash
shift
exec "$@"
EOF
chmod +x "$bin/apt-get" "$bin/sudo"
# with_data NAME APT [VARIABLE=VALUE...]: runs bazelw, and expects calls of apt-get with these last
# arguments.
with_data() {
  local name=$1 apt=$2
  shift 2
  : >"$TEST_TMPDIR/apt_log"
  found=$(env -u XDG_CACHE_HOME -u TESSERA_NO_INSTALL "$@" HOME="$home" TEST_TMPDIR="$TEST_TMPDIR" \
    PATH="$bin:$PATH" BAZEL="$bin/bazel" "$checkout/bazelw" info 2>"$TEST_TMPDIR/err")
  expect "$name" "--bazelrc=$home/.cache/tessera/bazelrc info" "$found"
  expect "$name: apt-get" "$apt" "$(paste -sd ' ' "$TEST_TMPDIR/apt_log")"
}
if [[ ! -x /usr/bin/apt-get ]]; then
  echo "skipped: needs apt-get"
  exit 0
fi
with_data "may not install" "" TESSERA_NO_INSTALL=1
expect "may not install: no message" "" "$(<"$TEST_TMPDIR/err")"
with_data "no network" "update"
grep -q "To try again, delete $home/.cache/tessera/tried_to_install_data" "$TEST_TMPDIR/err" ||
  { echo "no network: says '$(<"$TEST_TMPDIR/err")'"; exit 1; }
with_data "no network, again" ""
expect "no network, again: no message" "" "$(<"$TEST_TMPDIR/err")"
rm "$home/.cache/tessera/tried_to_install_data"
with_data "network" "update dataset-fashion-mnist" NETWORK=1
[[ ! -e $home/.cache/tessera/tried_to_install_data ]] || { echo "network: counts as failed"; exit 1; }
with_data "installed" "" NETWORK=1
