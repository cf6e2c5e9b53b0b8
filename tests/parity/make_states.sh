#!/usr/bin/env bash
# Makes (or checks) the PyTorch reference states; see README.md beside this file.
#
#   make_states.sh [--venv DIR] [arguments of make_states.py, e.g. --check]
#
# DIR is the folder of the virtual environment, made when it is not there.
# Default: ${XDG_CACHE_HOME:-~/.cache}/tessera/parity-venv
# PYTHON names the interpreter the environment is made with (default python3).
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
venv=

case "${1-}" in
  --venv)
    if [[ -z "${2-}" ]]; then
      echo "make_states.sh: --venv needs a folder" >&2
      exit 2
    fi
    venv=$2
    shift 2
    ;;
  --venv=?*)
    venv=${1#--venv=}
    shift
    ;;
esac
if [[ -z "$venv" ]]; then
  venv=${XDG_CACHE_HOME:-$HOME/.cache}/tessera/parity-venv
fi

# The copy of requirements.txt is written last: its presence says that what it
# lists was installed in full.
stamp=$venv/parity-requirements.txt
if ! cmp -s -- "$here/requirements.txt" "$stamp"; then
  if [[ ! -x "$venv/bin/python" ]]; then
    "${PYTHON:-python3}" -m venv -- "$venv"
  fi
  "$venv/bin/python" -m pip install --quiet --requirement "$here/requirements.txt"
  cp -- "$here/requirements.txt" "$stamp"
fi

exec "$venv/bin/python" "$here/make_states.py" "$@"
