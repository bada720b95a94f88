#!/usr/bin/env bash
# Starts the packed server with the three demo models. For each model it generates text with the
# packed client over the loopback network and prints the cost of each turn. Then it stops the
# server.
#
# The script uses only this machine's Linux kernel, GPU driver and cuBLASLt. The packed loader
# starts the programs with the packed libraries, so it runs on any x86-64 distribution.
# LD_LIBRARY_PATH may name the directories of libraries that are not packed.
#
# usage: run-demo.sh [DEVICE]    auto (default), cpu, cuda, cuda:N
set -euo pipefail
cd "$(dirname "$0")"

device=${1:-auto}
loader=$PWD/lib/ld-linux-x86-64.so.2
libraries=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run() { "$loader" --library-path "$libraries" "$@"; }

results=$(mktemp -d)
server=""
# shellcheck disable=SC2317  # the trap calls it
stop() {
  if [[ -n $server ]]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" || echo "the server ended with status $?"
  fi
  rm -rf "$results"
}
trap stop EXIT

models=(dense hwfa2 hypenet)
flags=()
# Without a budget the first model would take all memory of a GPU.
for model in "${models[@]}"; do
  flags+=(--model "$model=models/$model,device=$device,cache_bytes=1GiB")
done
"$loader" --library-path "$libraries" bin/longstream-server "${flags[@]}" --plugins "$PWD/plugins" \
  --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 2>"$results/server.log" &
server=$!
# wait_for PATTERN waits until a line of the server's log matches PATTERN, for at most a minute.
wait_for() {
  for _ in $(seq 600); do
    grep -qE "$1" "$results/server.log" && return
    kill -0 "$server" 2>/dev/null || { cat "$results/server.log"; exit 1; }
    sleep 0.1
  done
}
wait_for '"listening"'
port=$(sed -n 's/.*"listening","port":"\([0-9]*\)".*/\1/p' "$results/server.log")

status=0
for model in "${models[@]}"; do
  echo "=== $model on $device"
  wait_for "\"model_(ready|failed)\",\"model\":\"$model\""
  if grep "\"model_failed\",\"model\":\"$model\"" "$results/server.log"; then
    status=1
    continue
  fi
  sed -n "s/.*\"model_ready\",\"model\":\"$model\".*\"kernels\":\"\([^\"]*\)\".*/kernels: \1/p" \
    "$results/server.log"
  run bin/longstream --server "127.0.0.1:$port" generate -m "$model" -n 120 -t 0.6 --seed 7 \
    $'def read_lines(path):\n' || status=1
  run bin/longstream --server "127.0.0.1:$port" --json generate -m "$model" -n 120 -t 0.6 \
    --seed 7 $'def read_lines(path):\n' >"$results/turn.json" || status=1
  grep -E '"(generated_tokens|time_to_first_token_seconds|inter_token_milliseconds|kv|window|state)"' \
    "$results/turn.json" || status=1
done
exit "$status"
