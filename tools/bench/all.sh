#!/usr/bin/env bash
# Every benchmark of a build, one after the other: tables on standard output, the same figures as
# JSON in FOLDER, a file a program. Exits with 1 where one of them fails.
#
# usage: all.sh BUILD FOLDER [ARGUMENT OF service.py]...
set -euo pipefail

build=$1
folder=$2
shift 2
mkdir -p "$folder"
status=0

run() {
  echo "== $*"
  "$@" || status=1
}

for program in "$build"/bench/*_bench; do
  name=$(basename "$program" _bench)
  case $name in
    backends | model) run "$program" --json "$folder/$name.json" ;;
    *) run "$program" --benchmark_out="$folder/$name.json" --benchmark_out_format=json ;;
  esac
done
run "$(dirname "$0")/service.py" --build "$build" --json "$folder/service.json" "$@"
exit $status
