#!/usr/bin/env bash
# Packs all files that the checks need on a GPU machine: the sources of the tests and benchmarks, of
# GoogleTest and of the JSON library. Unless --sources-only is given, it also packs the demo:
# server, client, plugins, demo models, and every shared library that they need, including the
# loader.
#
# usage: tools/gpu/pack.sh [--sources-only] [--build DIR] [--output DIR]
# The demo comes from the build in DIR, build/release by default. Writes longstream-gpu.tar.gz into
# the
# output directory, build/gpu-pack by default.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/release
output=build/gpu-pack
with_demo=1
while (($#)); do
  case $1 in
    --sources-only) with_demo=0 ;;
    --build) build=$2; shift ;;
    --output) output=$2; shift ;;
    *) echo "pack.sh: unknown argument $1" >&2; exit 2 ;;
  esac
  shift
done

googletest=${GOOGLETEST_SOURCE:-/usr/src/googletest}
nlohmann=${NLOHMANN_INCLUDE:-/usr/include}/nlohmann
for needed in "$googletest/CMakeLists.txt" "$nlohmann/json.hpp"; do
  [[ -e $needed ]] || { echo "pack.sh: there is no $needed; make packages installs it" >&2; exit 1; }
done

# The sources that cmake/LongstreamThirdParty.cmake configures.
sources=(CMakeLists.txt LICENSE Makefile cmake kernels backends tools/gpu tests/CMakeLists.txt
         tests/backends tests/bench/gpu tests/bench/plans tests/bench/timing.h tests/conformance
         tests/golden tests/gpu tests/kernels tests/fuzz_trials.h tests/temporary_directory.h)

pack=$(mktemp -d)
trap 'rm -rf "$pack"' EXIT
root=$pack/longstream-gpu
mkdir -p "$root/third_party"
tar -cf - --exclude=__pycache__ "${sources[@]}" | tar -xf - -C "$root"
cp -r "$googletest" "$root/third_party/googletest"
cp -r "$nlohmann" "$root/third_party/nlohmann"

# Prints the paths of the libraries that a file needs, directly or through other libraries.
closure() { ldd "$@" | awk '/=> \// { print $3 } /^\t\// { print $1 }' | sort -u; }

pack_demo() {
  local demo=$root/demo
  [[ -x $build/bin/longstream-server ]] || { echo "pack.sh: $build has no server" >&2; exit 1; }
  mkdir -p "$demo"/{bin,lib,plugins}
  cp "$build"/bin/longstream{,-server} "$demo/bin/"
  cp "$build"/plugins/{dense,hwfa2,hypenet}.*.so "$demo/plugins/"
  cp -r models/demo "$demo/models"
  cp tools/gpu/run_demo.sh "$demo/run-demo.sh"
  local libraries
  mapfile -t libraries < <(closure "$demo"/bin/* "$demo"/plugins/*)
  cp -L "${libraries[@]}" "$demo/lib/"
  # The libraries of a GPU's driver link to these files; they would not load if these were from
  # another release of the C library.
  local libc name
  libc=$(dirname "$(printf '%s\n' "${libraries[@]}" | grep -m1 '/libc\.so\.6$')")
  for name in libdl.so.2 libpthread.so.0 librt.so.1 libm.so.6 libgcc_s.so.1; do
    [[ -e $demo/lib/$name ]] || cp -L "$libc/$name" "$demo/lib/"
  done
}
((with_demo == 0)) || pack_demo

mkdir -p "$output"
tar -czf "$output/longstream-gpu.tar.gz" -C "$pack" longstream-gpu
echo "$output/longstream-gpu.tar.gz: $(du -h "$output/longstream-gpu.tar.gz" | cut -f1)"
