#!/usr/bin/env bash
# Runs tools/gpu/check.sh with fake programs. Checks its result when programs pass, when they fail,
# when they find no GPU, and when the build fails. Usage: check_test.sh SOURCE_DIR
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir -p "$directory/tree/tools/gpu" "$directory/bin"
cp "$1/tools/gpu/check.sh" "$directory/tree/tools/gpu/"
cd "$directory/tree"

# program NAME LINE...  writes a fake program: a script of these lines.
program() {
  printf '%s\n' '#!/usr/bin/env bash' "${@:2}" >"$directory/bin/$1"
  chmod +x "$directory/bin/$1"
}
# all_pass  makes every fake program succeed.
all_pass() {
  program gpu_kernels_test 'echo "[  PASSED  ] 9 tests."'
  program gpu_golden_test 'echo "[  PASSED  ] 9 tests."'
  program gpu_bench 'echo "{\"device\": \"x\"}" >"$2"; echo "0 of what is asked for is not reached"'
  program ctest 'echo "100% tests passed, 0 tests failed out of 9"'
  program compute-sanitizer 'echo "========= ERROR SUMMARY: 0 errors"'
  program python3 'echo "x.cuda.so: 9 kernels, 9 of compute capability 9.0"'
  program cmake '[[ $1 != --build ]] || { mkdir -p "$2/tests"; cp "$PROGRAMS"/gpu_* "$2/tests/"; }'
}
# check STATUS  runs tools/gpu/check.sh, expects this status, and stores the output in $output.
check() {
  local status=0
  output=$(PROGRAMS=$directory/bin PATH="$directory/bin:$PATH" tools/gpu/check.sh 2>&1) || status=$?
  [[ $status == "$1" ]] || { echo "status $status instead of $1:"; echo "$output"; exit 1; }
}
expect() { grep -qE -- "$1" <<<"$output" || { echo "no '$1' in:"; echo "$output"; exit 1; }; }

all_pass
check 0
expect '^11 passed, 0 failed or unavailable, 0 not run'
expect '^machine_code +pass .* 9 kernels'
expect '^kernels +pass .* 72 tests passed'
expect '^mma_sync +pass .* 72 tests passed'
tr -d '\n' <build/gpu/check.json | grep -qF '"benchmarks": {"device": "x"}'

for name in gpu_kernels_test gpu_golden_test gpu_bench ctest; do
  program "$name" 'echo "no CUDA device: there is none" >&2; exit 2'
done
rm "$directory/bin/compute-sanitizer"
if ! command -v compute-sanitizer >/dev/null; then
  check 1
  expect '^kernels +UNAVAILABLE .*no CUDA device: there is none'
  expect '^racecheck +not run .*compute-sanitizer is not on PATH'
  expect '^3 passed, 6 failed or unavailable, 2 not run'
  grep -qF '"benchmarks": null' build/gpu/check.json
  grep -qF '"passed": 3, "failed": 6, "not_run": 2' build/gpu/check.json
fi

all_pass
program gpu_golden_test 'echo "[  FAILED  ] 1 test"; exit 1'
program compute-sanitizer '[[ $2 == memcheck ]] || exit 9'
check 1
expect '^golden +FAIL '
expect '^memcheck +pass '
expect '^racecheck +FAIL '
expect '^9 passed, 2 failed'

all_pass
program compute-sanitizer 'echo "========= Error: Device not supported"; exit 1'
check 0
expect '^memcheck +not run .*cannot debug'
expect '^9 passed, 0 failed or unavailable, 2 not run'

all_pass
program cmake '[[ $1 != --build ]] || exit 1'
check 1
expect '^build +FAIL '
expect '^1 passed, 1 failed or unavailable, 0 not run'
