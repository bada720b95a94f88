#!/usr/bin/env bash
# Runs all benchmarks of a build, one after the other. Prints tables to standard output and writes
# the same figures as JSON to FOLDER, one file per program. Exits with 1 if a benchmark fails.
#
# usage: all.sh BUILD FOLDER
#
# Environment variables hold further arguments: KERNEL_BENCH for the Google Benchmark programs,
# LAYER_BENCH for backends_bench, MODEL_BENCH for model_bench, SERVICE_BENCH for service.py.
set -euo pipefail

build=$1
folder=$2
read -ra kernel_arguments <<<"${KERNEL_BENCH:-}"
read -ra layer_arguments <<<"${LAYER_BENCH:-}"
read -ra model_arguments <<<"${MODEL_BENCH:-}"
read -ra service_arguments <<<"${SERVICE_BENCH:-}"
mkdir -p "$folder"
status=0

run() {
  echo "== $*"
  "$@" || status=1
}

for program in "$build"/bench/*_bench; do
  name=$(basename "$program" _bench)
  case $name in
    backends) run "$program" --json "$folder/$name.json" "${layer_arguments[@]}" ;;
    model) run "$program" --json "$folder/$name.json" "${model_arguments[@]}" ;;
    *)
      run "$program" --benchmark_out="$folder/$name.json" --benchmark_out_format=json \
        "${kernel_arguments[@]}"
      ;;
  esac
done
run "$(dirname "$0")/service.py" --build "$build" --json "$folder/service.json" \
  "${service_arguments[@]}"
exit $status
