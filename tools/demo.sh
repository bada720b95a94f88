#!/usr/bin/env bash
# `make demo`: starts the server with the three demo models, runs one prompt on each, prints a table
# of each model's costs and accuracy, kills the server in the middle of a turn, shows that the turn
# goes on when the server is started again, and stops the server.
set -euo pipefail
cd "$(dirname "$0")/.."

source tools/demo_server.sh

models=(dense hwfa2 hypenet)
flags=()
for model in "${models[@]}"; do
  flags+=(--model "$model=models/demo/$model")
done
flags+=(--store "$results/store")
start_server "${flags[@]}"

prompt='def read_lines(path):
    """Return the lines of a file."""
'
for model in "${models[@]}"; do
  echo "=== $model"
  printf '%s' "$prompt"
  "${client[@]}" generate -m "$model" -n 200 -t 0.6 --seed 7 "$prompt"
  "${client[@]}" --json generate -m "$model" -n 200 -t 0.6 --seed 7 "$prompt" \
    >"$results/$model.generate.json"
done

echo
echo "Scoring held-out text at 512 and at 4096 tokens ..."
for model in "${models[@]}"; do
  # Score the same 64 KiB of text in windows of both lengths.
  "${client[@]}" --json score -m "$model" -w 512 --max-windows 128 models/demo/heldout.txt \
    >"$results/$model.score.512.json"
  "${client[@]}" --json score -m "$model" -w 4096 --max-windows 16 models/demo/heldout.txt \
    >"$results/$model.score.4096.json"
done
python3 tools/demo_table.py "$results" "${models[@]}"

echo
echo "Killing the server in the middle of a turn, and starting it again ..."
turn=(generate -m dense -n 1500 -t 0.6 --seed 7 "$prompt")
"${client[@]}" "${turn[@]}" >"$results/undisturbed"
"${client[@]}" "${turn[@]}" >"$results/disturbed" 2>"$results/resumed" &
generate=$!
for _ in $(seq 1000); do
  [[ -s $results/disturbed ]] && break
  sleep 0.01
done
kill_server
written=$(stat -c %s "$results/disturbed")
start_server "${flags[@]}"
wait "$generate"
if ! cmp "$results/undisturbed" "$results/disturbed" || ! grep -q resuming "$results/resumed"; then
  cat "$results/resumed"
  exit 1
fi
echo "The client had $written of $(stat -c %s "$results/disturbed") bytes when the server was killed. It resumed" \
  "the turn by itself, and its output is that of an undisturbed turn."
