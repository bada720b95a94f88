#!/usr/bin/env bash
# Checks the output of tools/gpu/machine_code.py for machine_code_cases.cu.
# Usage: machine_code_test.sh SOURCE_DIR NVCC PYTHON
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$2" -std=c++20 -I "$1" -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -fatbin \
  -o "$directory/cases.fatbin" "$1/tests/gpu/machine_code_cases.cu"
status=0
output=$("$3" -B "$1/tools/gpu/machine_code.py" "$directory/cases.fatbin") || status=$?
[[ $status == 1 ]] || { echo "status $status instead of 1:"; echo "$output"; exit 1; }

expect() { grep -qE -- "$1" <<<"$output" || { echo "no '$1' in:"; echo "$output"; exit 1; }; }
early='before it waits for earlier kernels it'
expect "NeverWaits.*: $early accesses memory by instruction 0x[0-9a-f]+, at 0x"
expect "LoadsEarly.*: $early accesses memory"
expect "CopiesEarly.*: $early accesses memory"
expect "EndsEarly.*: $early ends, at 0x"
expect "SomeThreadsWait.*: $early accesses memory"
expect "KeepsAStack.*: its stack has 64 bytes, expected at most 0\$"
expect "WaitsForEachProduct.*: it waits 4 times for 4 products\$"
expect "RefersToTheHost.*: it has a trap, at 0x"
expect ': 11 kernels, 11 of compute capability 9.0$'
[[ $(wc -l <<<"$output") == 9 ]] || { echo "too much is found:"; echo "$output"; exit 1; }
