#!/usr/bin/env bash
# Makes the Python environment of models/ (default: build/venv) and prints its interpreter's path.
# Quick when the environment is there and requirements.txt has not changed since.
set -euo pipefail

models=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${1:-$models/../build/venv}
stamp=$venv/requirements.installed

if ! cmp -s "$models/requirements.txt" "$stamp"; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$models/requirements.txt" >&2
  cp "$models/requirements.txt" "$stamp"
fi
echo "$venv/bin/python"
