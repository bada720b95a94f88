#!/usr/bin/env bash
# `make config-parity` runs this script. It compares how Longstream and transformers read
# config.json and writes docs/config-parity.md. It needs checkpoint_logits of the release build and
# downloads PyTorch. Arguments are passed to config_parity.py: with --family NAME it compares only
# this family and writes no page. LONGSTREAM_VENV names a Python environment to use instead of
# build/venv-config-parity.
set -euo pipefail

golden=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$golden/../..
venv=${LONGSTREAM_VENV:-$root/build/venv-config-parity}
python=$("$golden/../setup_venv.sh" "$venv" "$golden/requirements-config-parity.txt")
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
nice -n 10 "$python" "$golden/config_parity.py" \
  --program "$root/build/release/tests/checkpoint_logits" --write "$root/docs/config-parity.md" "$@"
