# The virtual environment with PyTorch that tests and benchmarks compare with. To be sourced.

# torch_venv [DIR]: makes it if it is not there, in DIR or in
# ${XDG_CACHE_HOME:-~/.cache}/tessera/parity-venv, and sets `venv` to its folder. PYTHON names the
# interpreter it is made with (default python3).
torch_venv() {
  local requirements stamp
  requirements=$(dirname -- "${BASH_SOURCE[0]}")/requirements.txt
  venv=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera/parity-venv}
  # The copy of requirements.txt is written last: its presence says that what it lists was installed
  # in full.
  stamp=$venv/parity-requirements.txt
  if cmp -s -- "$requirements" "$stamp"; then return; fi
  if [[ ! -x "$venv/bin/python" ]]; then
    "${PYTHON:-python3}" -m venv -- "$venv"
  fi
  "$venv/bin/python" -m pip install --quiet --requirement "$requirements"
  cp -- "$requirements" "$stamp"
}
