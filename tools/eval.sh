#!/usr/bin/env bash
# `make eval`: measures the demo models beyond their training length, by calls to the service. Also
# measures the dense model with ReRoPE, which is added at load time. Rewrites the tables and plots
# of docs/length-extrapolation.md.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/demo_server.sh

dense=models/demo/dense
rerope=backend=hwfa2,options.rerope_window=256
start_server \
  --model dense=$dense \
  --model "dense+rerope=$dense,$rerope" \
  --model "dense+rerope+logn=$dense,$rerope,options.logn=extrapolate" \
  --model hwfa2=models/demo/hwfa2 \
  --model hypenet=models/demo/hypenet
models=(-m dense -m dense+rerope -m dense+rerope+logn -m hwfa2 -m hypenet)

evaluate() {
  echo "eval $1 ..."
  "${client[@]}" --json eval "$1" "${models[@]}" --mark 512 "${@:2}" >"$results/$1.json"
}
evaluate text --lengths 512,4096 --svg docs/length-extrapolation-text.svg models/demo/heldout.txt
evaluate passkey --lengths 256,512,1024,2048,4096 --samples 50 \
  --svg docs/length-extrapolation-passkey.svg
evaluate recall --lengths 256,512,1024,2048,4096 --samples 25 \
  --svg docs/length-extrapolation-recall.svg
evaluate listops --lengths 256,512,1024,2048 --samples 50
python3 tools/eval_table.py "$results" docs/length-extrapolation.md
