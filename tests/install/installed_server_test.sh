#!/usr/bin/env bash
# installed_server_test.sh BIN MODEL: the server in BIN finds the plugins it was installed with, serves
# MODEL to the client beside it, and ends when told to.
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
