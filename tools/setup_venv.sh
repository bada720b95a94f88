#!/usr/bin/env bash
# Makes a Python environment and prints the path of its interpreter:
#   setup_venv.sh [DIR [REQUIREMENTS]] default: build/venv, golden/requirements.txt Fast if the
#   environment exists and the requirements have not changed.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${1:-$tools/../build/venv}
requirements=${2:-$tools/golden/requirements.txt}
stamp=$venv/requirements.installed

# A requirements file may include another one, so compare all of them.
wanted=$(basename "$requirements" && cat "$(dirname "$requirements")"/requirements*.txt)
if [[ ! -f $stamp || $wanted != "$(<"$stamp")" ]]; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2
  echo "$wanted" >"$stamp"
fi
echo "$venv/bin/python"
