#!/usr/bin/env bash
# `make gpu-check` runs this script. It builds the CUDA kernels and plugins and runs all checks that
# need a GPU: the tests of the ops, the golden models, the conformance kit, random steps beside the
# CPU plugins, compute-sanitizer and the benchmarks. It needs CMake, ninja, nvcc and a C++ compiler,
# and runs in an unpacked longstream-gpu.tar.gz or in a checkout.
#
# The script prints a table and writes build/gpu/check.json. The time limits of the stages add up to
# less than 12 minutes. The exit code is 0 if all stages that ran have passed. A stage that finds no
# GPU is UNAVAILABLE and counts as not passed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

build=build/gpu
logs=$build/logs
mkdir -p "$logs"
names=() states=() seconds=() notes=()

# record NAME STATE SECONDS NOTE
record() {
  names+=("$1") states+=("$2") seconds+=("$3") notes+=("$4")
  printf '%-12s %-12s %4s s  %s\n' "$1" "$2" "$3" "$4"
}

# stage NAME LIMIT COMMAND... runs a command for at most LIMIT seconds and writes its output to a
# log.
stage() {
  local name=$1 limit=$2 log=$logs/$1.log begin=$SECONDS status note state
  shift 2
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1
  status=$?
  note=$(grep -m1 'no CUDA device: ' "$log" | sed 's/.*no CUDA device: /no CUDA device: /')
  if ((status == 0)); then
    state=pass
    note=$(grep -E '^\[  PASSED  \]|tests passed|kernels, |what is asked for' "$log" | tail -1)
  elif ((status == 124 || status == 137)); then
    state=TIMEOUT note="over $limit s; $log"
  elif grep -q 'Device not supported' "$log"; then
    state="not run" note="compute-sanitizer cannot debug this GPU on this machine"
  elif [[ -n $note ]]; then
    state=UNAVAILABLE
  else
    state=FAIL note="status $status; $log"
  fi
  record "$name" "$state" "$((SECONDS - begin))" "$note"
  [[ $state == pass ]]
}

# Compiling only for the architecture of this machine's GPU takes half the time.
architecture() {
  case $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1) in
    9.0) echo 90a-real ;;
    8.*) echo 80-real ;;
    *) echo "80-real;90a-real" ;;
  esac
}

configure() {
  local options=(-D CMAKE_BUILD_TYPE=Release -D LONGSTREAM_BUILD_SERVICE=OFF -D LONGSTREAM_CUDA=ON
                 -D LONGSTREAM_GPU_TESTS=ON -D LONGSTREAM_WARNINGS_AS_ERRORS=OFF
                 -D "LONGSTREAM_CUDA_ARCHITECTURES=$(architecture)")
  if [[ -d third_party ]]; then options+=(-D "LONGSTREAM_THIRD_PARTY_DIR=$PWD/third_party"); fi
  cmake -S . -B "$build" -G Ninja "${options[@]}" "$@"
}

# in_shards NAME COMMAND... runs the tests of the ops in 8 processes at the same time, each started
# by COMMAND. On one processor the reference ops of these tests would take most of a minute.
in_shards() {
  local name=$1 shards=8 shard status=0 running=()
  shift
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
      "$@" "$build/tests/gpu_kernels_test" --gtest_brief=1 >"$logs/$name.$shard.log" 2>&1 &
    running+=($!)
  done
  for shard in "${running[@]}"; do wait "$shard" || status=$?; done
  grep -h -m3 -E '^no CUDA device|Device not supported|(ERROR|RACECHECK) SUMMARY|FAILED' \
    "$logs/$name".*.log
  awk '/^\[  PASSED  \]/ { passed += $4 } END { print passed + 0, "tests passed" }' "$logs/$name".*.log
  return "$status"
}

# Runs the tests of the ops under one of compute-sanitizer's tools, without the statistical tests
# with many draws, which would find no further errors.
sanitize() {
  GTEST_FILTER='-*Softmax*:*Draws*' in_shards "$1" compute-sanitizer --tool "$1" --error-exitcode 9
}

json_text() { sed 's/\\/\\\\/g; s/"/\\"/g; s/[[:cntrl:]]/ /g' <<<"$1"; }

write_json() {
  local i comma
  {
    printf '{"stages": [\n'
    for i in "${!names[@]}"; do
      comma=$([[ $i == 0 ]] || echo ,)
      printf '%s {"name": "%s", "state": "%s", "seconds": %s, "note": "%s"}\n' "$comma" \
        "${names[i]}" "${states[i]}" "${seconds[i]}" "$(json_text "${notes[i]}")"
    done
    printf '],\n"passed": %s, "failed": %s, "not_run": %s,\n"benchmarks": ' \
      "$passed" "$failed" "$absent"
    if [[ -s $build/bench.json ]]; then cat "$build/bench.json"; else echo null; fi
    printf '}\n'
  } >"$build/check.json"
}

export -f in_shards sanitize configure architecture
export build logs LONGSTREAM_CUDA_ALGORITHMS=$PWD/$build/cuda-algorithms
rm -f "$build/bench.json"
# Arguments of this script go to CMake.
# The limit is for configuring and building together, because on some machines CMake needs long to
# find the compilers.
begin=$SECONDS
build_limit=${GPU_CHECK_BUILD_SECONDS:-180}
stage configure "$build_limit" bash -c 'configure "$@"' configure "$@" &&
  stage build "$((build_limit - (SECONDS - begin)))" cmake --build "$build" --target gpu_programs
if [[ ${states[-1]} == pass && ${#states[@]} == 2 ]]; then
  if command -v python3 >/dev/null; then
    stage machine_code 10 python3 -B tools/gpu/machine_code.py "$build"/plugins/*.cuda.so
  else
    record machine_code "not run" 0 "python3 is not on PATH"
  fi
  stage kernels 40 bash -c "in_shards kernels env"
  # Runs the attention kernels for compute capability 8.x. On a GPU of 9.0 the environment variable
  # selects these kernels.
  stage mma_sync 15 bash -c \
    "in_shards mma_sync env LONGSTREAM_CUDA_WGMMA=0 GTEST_FILTER='*Attention*'"
  stage golden 25 "$build/tests/gpu_golden_test" --gtest_brief=1
  stage conformance 180 ctest --test-dir "$build" -R '^conformance_cuda_' -j 8 --output-on-failure \
    --no-tests=error
  stage random_steps 40 ctest --test-dir "$build" -R '^random_steps_cuda_' -j 3 \
    --output-on-failure --no-tests=error
  for tool in memcheck racecheck; do
    if command -v compute-sanitizer >/dev/null; then
      stage "$tool" 45 bash -c "sanitize $tool"
    else
      record "$tool" "not run" 0 "compute-sanitizer is not on PATH"
    fi
  done
  stage benchmarks 100 "$build/tests/gpu_bench" --json "$build/bench.json"
  cat "$logs/benchmarks.log"
fi
passed=0 failed=0 absent=0
for state in "${states[@]}"; do
  case $state in pass) ((++passed)) ;; "not run") ((++absent)) ;; *) ((++failed)) ;; esac
done
write_json
echo "$passed passed, $failed failed or unavailable, $absent not run; $build/check.json"
((failed == 0))
