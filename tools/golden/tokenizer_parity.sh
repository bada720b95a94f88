#!/usr/bin/env bash
# `make tokenizer-parity` runs this script. It compares Longstream's tokenizers with the libraries
# `tokenizers` and `sentencepiece` on 10 000 texts and 10 000 lists of ids per family. It needs
# tokenizer_parity_test of the release build. Arguments are passed to tokenizer_golden.py: another
# --seed gives other texts, and --directory DIR compares the tokenizer of a model directory.
# LONGSTREAM_VENV names a Python environment to use instead of build/venv-tokenizers.
set -euo pipefail

golden=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$golden/../../build
venv=${LONGSTREAM_VENV:-$build/venv-tokenizers}
python=$("$golden/../setup_venv.sh" "$venv" "$golden/requirements-tokenizers.txt")
cases=$build/tokenizer-parity
rm -rf "$cases"
echo "making texts and the libraries' results for them: $cases"
PYTHONDONTWRITEBYTECODE=1 "$python" "$golden/tokenizer_golden.py" --wide --out "$cases" "$@"
LONGSTREAM_TOKENIZER_GOLDEN=$cases "$build/release/tests/tokenizer_parity_test" --gtest_brief=1 \
  --gtest_filter="Families/*"
