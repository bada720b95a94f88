#!/usr/bin/env bash
# The server in BIN must find the plugins that were installed with it, serve MODEL to the client in
# BIN, and stop on request.
# Usage: installed_server_test.sh BIN MODEL
set -euo pipefail

bin=$1
model=$2
log=$(mktemp)
"$bin/longstream-server" --model "m=$model" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  2>"$log" &
server=$!
trap 'kill -KILL "$server" 2>/dev/null || true; cat "$log" >&2; rm -f "$log"' EXIT

for _ in $(seq 600); do
  grep -q '"listening"' "$log" && break
  kill -0 "$server"
  sleep 0.05
done
port=$(sed -n 's/.*"listening","port":"\([0-9]*\)".*/\1/p' "$log")
"$bin/longstream" --server "127.0.0.1:$port" --wait 30 generate -m m -n 4 --ignore-eos abc
kill -TERM "$server"
wait "$server"
