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
