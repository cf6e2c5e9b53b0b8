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
source "$here/torch_venv.sh"
torch_venv "$venv"

exec "$venv/bin/python" "$here/make_states.py" "$@"
