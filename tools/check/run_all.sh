#!/usr/bin/env bash
# Runs every check, the quick ones first; names those that fail. Needs the release build.
set -euo pipefail
cd "$(dirname "$0")/../.."

failed=()
for check in format layering op_names lengths weak_symbols tidy; do
  start=$SECONDS
  python3 "tools/check/$check.py" || failed+=("$check")
  echo "  $check took $((SECONDS - start)) s"
done
if ((${#failed[@]})); then
  echo "checks failed: ${failed[*]}"
  exit 1
fi
echo "all checks passed"
