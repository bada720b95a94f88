#!/usr/bin/env bash
# Checks that two builds give bit-identical tokens and log-probabilities. Uses every golden model
# (tests/golden) and every demo model (models/demo) of this checkout, each CPU instruction set that
# the processor has, and the CUDA kernels, which run on the CPU (tests/simt).
#
# usage: bits.sh [--driver FILE] [--sets "NAME..."] [--models REGEX] [--out DIR] OLD_BUILD NEW_BUILD
#
#   OLD_BUILD, NEW_BUILD  build directories of any two commits with their plugins. The target
#                         bits_driver builds all that is needed. An older commit does not have this
#                         target; build there:
#                         dense.cpu hwfa2.cpu hypenet.cpu simt_dense simt_hwfa2 simt_hypenet
#   --driver FILE  the program that loads the plugins of both builds; by default
#                  NEW_BUILD/tests/bits_driver
#   --sets         some of baseline, avx2, avx512_f32, avx512, amx and simt; by default all but amx
#   --models       models whose name (golden/llama, demo/dense) the extended regular expression fits
#   --out DIR      the folder of the results; by default a temporary one, which is kept only if the
#                  builds differ
#
# The workload on each model (tests/conformance/bits/workload.cc): a prompt in pieces, greedy and
# sampled decode with top log-probabilities, a fork, a batch of sequences of different lengths, a
# rollback, scored rows, a snapshot and its copy. It runs with several types of weights and caches,
# and on a CPU with 1 and with 2 threads. OUT/old and OUT/new have a file for each combination of
# set, model and types. The lines of a file are the results, so diff shows the first difference.
# OUT/old.sha256 and OUT/new.sha256 list the SHA-256 of each file; the hash of a build is the hash
# of its list.
#
# Prints a hash for each build. Exit code: 0 if they are equal. 1 if they differ (the first models
# are named), if a model fails, or if 2 threads give other bits than 1 thread. 2 for wrong usage.
# Names the sets that the processor lacks, which were not compared. The whole run takes about 130
# seconds on two processors.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
kMostNamed=10

fail_usage() {
  echo "bits.sh: $1" >&2
  sed -n 's/^# usage: /usage: /p' "$0" >&2
  exit 2
}

driver="" sets="simt baseline avx2 avx512_f32 avx512" models_regex="" out=""
while (($# > 0)) && [[ $1 == --* ]]; do
  (($# > 1)) || fail_usage "no value after $1"
  case $1 in
    --driver) driver=$2 ;;
    --sets) sets=$2 ;;
    --models) models_regex=$2 ;;
    --out) out=$2 ;;
    *) fail_usage "unknown flag $1" ;;
  esac
  shift 2
done
(($# == 2)) || fail_usage "expected OLD_BUILD and NEW_BUILD"
old=$1 new=$2
for build in "$old" "$new"; do
  [[ -d $build ]] || fail_usage "there is no directory $build"
done
for set in $sets; do
  [[ " baseline avx2 avx512_f32 avx512 amx simt " == *" $set "* ]] || fail_usage "there is no set $set"
done
driver=${driver:-$new/tests/bits_driver}
[[ -x $driver ]] || fail_usage "there is no program $driver; build the target bits_driver"

models=()
for config in "$root"/models/demo/*/config.json "$root"/tests/golden/*/config.json; do
  directory=$(dirname "$config")
  name=$(basename "$(dirname "$directory")")/$(basename "$directory")
  [[ $name =~ $models_regex ]] && models+=("$directory")
done
((${#models[@]} > 0)) || fail_usage "no model's name fits '$models_regex'"

keep=yes
if [[ -z $out ]]; then
  out=$(mktemp -d)
  keep=no
fi
mkdir -p "$out"
[[ -z $(ls -A "$out") ]] || fail_usage "the folder $out is not empty"

# Run both builds at once. Each uses about one processor.
compared=() failed=no
for set in $sets; do
  begin=$SECONDS
  status=() processes=()
  for side in old new; do
    "$driver" "${!side}" "$set" "$out/$side/$set" "${models[@]}" 2>"$out/$side.$set.log" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do
    code=0
    wait "$process" || code=$?
    status+=("$code")
  done
  case ${status[*]} in
    "0 0") compared+=("$set") ;;
    "3 3")
      echo "$set: NOT COMPARED, this processor does not have it"
      continue
      ;;
    *)
      for side in old new; do sed "s/^/FAILED $side: /" "$out/$side.$set.log"; done
      echo "$set: FAILED, exit codes of the old and the new build: ${status[*]}"
      failed=yes
      ;;
  esac
  echo "$set: $((SECONDS - begin)) s, $(find "$out/new/$set" -name '*.txt' | wc -l) files"
done

for side in old new; do
  mkdir -p "$out/$side"
  (cd "$out/$side" && find . -name '*.txt' -printf '%P\n' | LC_ALL=C sort | xargs -r sha256sum) \
    >"$out/$side.sha256"
done
echo "sets: ${compared[*]:-none}; models: ${#models[@]}"
for side in old new; do
  echo "$side $(sha256sum <"$out/$side.sha256" | cut -d ' ' -f 1)  ${!side}"
done

mapfile -t differing < <(diff "$out/old.sha256" "$out/new.sha256" |
  sed -n 's/^[<>] [0-9a-f]*  //p' | LC_ALL=C sort -u)
for file in "${differing[@]:0:kMostNamed}"; do
  echo "DIFFERS: $file"
  diff "$out/old/$file" "$out/new/$file" 2>&1 | sed -n '2p;/^---/{n;p;q}' | cut -c 1-200 || true
done
if ((${#differing[@]} > 0)) || [[ $failed == yes ]]; then
  echo "${#differing[@]} files differ; all files: $out"
  exit 1
fi
((${#compared[@]} > 0)) || { echo "nothing was compared" && exit 1; }
[[ $keep == yes ]] || rm -r "$out"
echo "the builds give the same bits"
