#!/usr/bin/env bash
# Makes a Python environment and prints its interpreter's path:
#   setup_venv.sh [DIR [REQUIREMENTS]]    default: build/venv, golden/requirements.txt
# Quick when the environment is there and the requirements have not changed since.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${1:-$tools/../build/venv}
requirements=${2:-$tools/golden/requirements.txt}
stamp=$venv/requirements.installed

# One file may include the other.
wanted=$(basename "$requirements" && cat "$(dirname "$requirements")"/requirements*.txt)
if [[ ! -f $stamp || $wanted != "$(<"$stamp")" ]]; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2
  echo "$wanted" >"$stamp"
fi
echo "$venv/bin/python"
