# shellcheck shell=bash
# For tests on emulated hosts (tools/emulate). To be sourced.
emulate=$PWD/tools/emulate/emulate

# need_emulated_hosts: ends a test, as skipped, if this machine lacks what they need.
need_emulated_hosts() {
  local error
  error=$("$emulate" -- true 2>&1 >/dev/null) && return
  [[ $error == "error: emulated hosts need"* ]] || { echo "$error" && exit 1; }
  echo "skipped: ${error#error: }"
  exit 0
}
