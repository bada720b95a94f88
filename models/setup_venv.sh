#!/usr/bin/env bash
# Makes a Python environment and prints its interpreter's path:
#   setup_venv.sh [DIR [REQUIREMENTS]]    default: build/venv, the requirements.txt beside this file
# Quick when the environment is there and the requirements have not changed since.
set -euo pipefail

models=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${1:-$models/../build/venv}
requirements=${2:-$models/requirements.txt}
stamp=$venv/requirements.installed

# One file may include the other.
wanted=$(basename "$requirements" && cat "$(dirname "$requirements")"/requirements*.txt)
if [[ ! -f $stamp || $wanted != "$(<"$stamp")" ]]; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2
  echo "$wanted" >"$stamp"
fi
echo "$venv/bin/python"
