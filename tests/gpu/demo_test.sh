#!/usr/bin/env bash
# Unpacks the demo of tools/gpu/pack.sh into an empty directory. Checks that every library comes
# from the pack, that all models generate on the CPU, and that without a GPU the models for `cuda`
# fail at once with the reason.
# Usage: demo_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1/tools/gpu/pack.sh" --build "$2" --output "$directory"
tar -xzf "$directory/longstream-gpu.tar.gz" -C "$directory"
cd "$directory/longstream-gpu/demo"

fail() { echo "$1"; echo "$output"; exit 1; }

for file in bin/* plugins/*; do
  output=$(lib/ld-linux-x86-64.so.2 --library-path "$PWD/lib" --list "$file" 2>&1) || fail "$file:"
  # Every library must come from lib/. A line without a file name is the library that the kernel
  # provides. The loader is listed as the loader that runs, lib/ld-linux.
  if grep -E '=> |not found' <<<"$output" | grep -vqE "=> ($PWD/)?lib/"; then
    fail "$file needs what is not packed:"
  fi
done

output=$(env -i PATH="$PATH" ./run-demo.sh cpu 2>&1) || fail "on the CPU:"
for line in '=== (dense|hwfa2|hypenet) on cpu' 'kernels: (baseline|avx2|avx512_f32|avx512|amx)$' \
            '22 \+ 120 tokens' '"generated_tokens": 120,'; do
  [[ $(grep -cE -- "$line" <<<"$output") == 3 ]] || fail "not three times '$line':"
done

if [[ ! -e /dev/nvidiactl ]]; then
  output=$(timeout 60 ./run-demo.sh cuda 2>&1) && fail "on no GPU:"
  [[ $(grep -c 'model_failed.*no CUDA device: ' <<<"$output") == 3 ]] || fail "not three failures:"
fi
