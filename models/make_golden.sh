#!/usr/bin/env bash
# Writes every golden value under tests/golden anew; what `make golden` runs.
# LONGSTREAM_VENV names a Python environment to use in place of build/venv.
set -euo pipefail

models=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$models/setup_venv.sh" "${LONGSTREAM_VENV:-$models/../build/venv}")
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$python" "$models/make_goldens.py"
"$python" "$models/tokenizer_golden.py"
"$python" -W ignore "$models/chat_golden.py"
