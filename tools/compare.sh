#!/usr/bin/env bash
# `make compare`: compares the three demo models on held-out text, teacher-forced, at prompts of 256,
# 1024 and 4096 tokens, by calls to the service. Writes build/compare/report.html and report.json.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/demo_server.sh

reports=build/compare
mkdir -p "$reports"
start_server --model dense=models/demo/dense --model hwfa2=models/demo/hwfa2 \
  --model hypenet=models/demo/hypenet
python3 tools/compare_prompts.py models/demo/heldout.txt 30 256 1024 4096 >"$reports/prompts.jsonl"
"${client[@]}" compare --arms dense,hwfa2,hypenet --prompts "$reports/prompts.jsonl" \
  --html "$reports/report.html" --json "$reports/report.json"
