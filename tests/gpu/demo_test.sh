#!/usr/bin/env bash
# The demo that tools/gpu/pack.sh packs, unpacked into an empty directory: every library comes from
# the pack, all models generate on the CPU, and without a GPU `cuda` says at once what is missing.
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
  # All files except those that the kernel maps. The loader is named after the running one, lib/ld-linux.
  if grep -E '=> |not found' <<<"$output" | grep -vqE "=> ($PWD/)?lib/"; then
    fail "$file needs what is not packed:"
  fi
done

output=$(env -i PATH="$PATH" ./run-demo.sh cpu 2>&1) || fail "on the CPU:"
for line in '=== (dense|hwfa2|hypenet) on cpu' 'kernels: (baseline|avx2|avx512)$' \
            '22 \+ 120 tokens' '"generated_tokens": 120,'; do
  [[ $(grep -cE -- "$line" <<<"$output") == 3 ]] || fail "not three times '$line':"
done

if [[ ! -e /dev/nvidiactl ]]; then
  output=$(timeout 60 ./run-demo.sh cuda 2>&1) && fail "on no GPU:"
  [[ $(grep -c 'model_failed.*no CUDA device: ' <<<"$output") == 3 ]] || fail "not three failures:"
fi
