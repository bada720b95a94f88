#!/usr/bin/env bash
# `make golden` runs this script. It writes all golden values under tests/golden again.
# LONGSTREAM_VENV names a Python environment to use instead of build/venv.
set -euo pipefail

golden=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$golden/../setup_venv.sh" "${LONGSTREAM_VENV:-$golden/../../build/venv}")
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$python" "$golden/make_goldens.py"
"$python" "$golden/tokenizer_golden.py"
PYTHONPATH="$golden" "$python" "$golden/gguf_files/gguf_goldens.py"
PYTHONPATH="$golden" "$python" "$golden/gguf_files/gguf_tokenizers.py"
"$python" -W ignore "$golden/chat_golden.py"
