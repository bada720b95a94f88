#!/usr/bin/env bash
# The server in BIN must find the plugins that were installed with it, serve MODEL to the client in
# BIN and to TALK (out_of_tree_client/talk.cc), and stop on request.
# Usage: installed_server_test.sh BIN MODEL TALK
set -euo pipefail

bin=$1
model=$2
talk=$3
log=$(mktemp)
"$bin/longstream-server" --model "m=$model,options.utf8=true" --listen 127.0.0.1:0 \
  --metrics-listen 127.0.0.1:0 2>"$log" &
server=$!
trap 'kill -KILL "$server" 2>/dev/null || true; cat "$log" >&2; rm -f "$log"' EXIT

for _ in $(seq 600); do
  grep -q '"listening"' "$log" && break
  kill -0 "$server"
  sleep 0.05
done
port=$(sed -n 's/.*"listening","port":"\([0-9]*\)".*/\1/p' "$log")
"$bin/longstream" --server "127.0.0.1:$port" --wait 30 generate -m m -n 4 --ignore-eos abc

# A token of the model is a byte.
output=$("$talk" "127.0.0.1:$port" m)
echo "$output"
for sentence in "from token 16 to token 46." "The fork is at token 48." "the answer is the same."; do
  grep -qF "$sentence" <<<"$output" || { echo "talk has not printed: $sentence"; exit 1; }
done
open=$("$bin/longstream" --server "127.0.0.1:$port" --json sessions list)
grep -q session_id <<<"$open" && { echo "talk has left sessions open: $open"; exit 1; }

kill -TERM "$server"
wait "$server"
