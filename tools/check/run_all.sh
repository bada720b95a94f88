#!/usr/bin/env bash
# Runs every check, the quick ones first, and names the checks that fail. Needs the release build.
set -euo pipefail
cd "$(dirname "$0")/../.."

# clang-tidy only reads the sources that changed in the last day, because it takes 2 seconds per
# source on one core. `make tidy` reads all shipped sources and takes minutes.
failed=()
for check in format shell_scripts layering op_names lengths prose proto_compatibility weak_symbols python_package tidy; do
  start=$SECONDS
  arguments=()
  [[ $check == tidy ]] && arguments=(--changed)
  python3 "tools/check/$check.py" "${arguments[@]}" || failed+=("$check")
  echo "  $check took $((SECONDS - start)) s"
done
if ((${#failed[@]})); then
  echo "checks failed: ${failed[*]}"
  exit 1
fi
echo "all checks passed"
