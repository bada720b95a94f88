#!/usr/bin/env bash
# Checks that the pack of tools/gpu/pack.sh is complete. It is unpacked into an empty directory and
# configured while the installed packages that it could use instead are hidden. Then everything that
# make gpu-check builds is compiled from packed sources with packed headers.
# Usage: pack_test.sh SOURCE_DIR
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1/tools/gpu/pack.sh" --sources-only --output "$directory"
tar -xzf "$directory/longstream-gpu.tar.gz" -C "$directory"
cd "$directory/longstream-gpu"

hidden=()
for package in benchmark Boost Python3 absl gRPC Protobuf prometheus-cpp yaml-cpp; do
  hidden+=(-D "CMAKE_DISABLE_FIND_PACKAGE_$package=ON")
done
cmake -S . -B build -G Ninja -D LONGSTREAM_BUILD_SERVICE=OFF -D LONGSTREAM_CUDA=ON \
  -D LONGSTREAM_GPU_TESTS=ON -D "LONGSTREAM_THIRD_PARTY_DIR=$PWD/third_party" "${hidden[@]}"

# Every source and include directory must be in the pack or in the CUDA toolkit.
outside=$(grep -oE '"file": "[^"]+"|-(I|isystem) ?=?[^ "]+' build/compile_commands.json |
  grep -oE '/[^ "]+' | sort -u | grep -vE "^$PWD(/|\$)|/cuda" || true)
[[ -z $outside ]] || { echo "outside the pack: $outside"; exit 1; }
commands() { grep -F "$1" build/compile_commands.json; }
commands tests/backends/golden/golden_test.cc | grep -qF "$PWD/third_party/googletest"
commands backends/checkpoint/json.cc | grep -qF "$PWD/third_party"

# Every header of this repository that a packed source includes must be in the pack.
absent=$(grep -rhoE '^ *#include "(kernels|backends|tests)/[^"]+"' kernels backends tests |
  grep -oE '[^"]+\.[a-z]+' | sort -u | while read -r header; do [[ -e $header ]] || echo "$header"; done)
[[ -z $absent ]] || { echo "not in the pack: $absent"; exit 1; }

needed=$(ninja -C build -t commands gpu_programs)
for program in tests/gpu_{kernels_test,golden_test,bench} tests/random_steps bin/longstream-conformance \
               plugins/{dense,hwfa2,hypenet}.{cuda,cpu}.so; do
  grep -qF "$program" <<<"$needed" || { echo "gpu_programs does not build $program"; exit 1; }
done
for tests in '^conformance_cuda_' '^random_steps_cuda_'; do
  ctest --test-dir build -N -R "$tests" | grep -qE 'Total Tests: [1-9]'
done

rm third_party/nlohmann/json.hpp
if cmake -S . -B broken -G Ninja -D "LONGSTREAM_THIRD_PARTY_DIR=$PWD/third_party" 2>"$directory/log"; then
  echo "configures without the JSON library"
  exit 1
fi
grep -qF "there is no nlohmann/json.hpp" "$directory/log"
