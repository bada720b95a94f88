# shellcheck shell=bash
# Scripts that serve the demo models source this file. start_server FLAG... starts a server and sets
# `client`, the command line of the client for it. The first server takes a free port, and each later
# one the same port. kill_server ends the server with SIGKILL. `results` is a temporary directory.
# When the script ends, the server is stopped and the directory is removed.

build=build/release
results=$(mktemp -d)
server=""
port=0

stop_server() {
  if [[ -n "$server" ]]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" || echo "the server ended with status $?"
  fi
  rm -rf "$results"
}
trap stop_server EXIT

kill_server() {
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
  server=""
}

start_server() {
  # With port 0 the server picks free ports and writes them to its log.
  "$build/bin/longstream-server" "$@" --listen "127.0.0.1:$port" --metrics-listen 127.0.0.1:0 \
    2>"$results/server.log" &
  server=$!
  for _ in $(seq 200); do
    grep -q '"listening"' "$results/server.log" && break
    if ! kill -0 "$server" 2>/dev/null; then
      cat "$results/server.log"
      exit 1
    fi
    sleep 0.05
  done
  port=$(sed -n 's/.*"listening","port":"\([0-9]*\)".*/\1/p' "$results/server.log")
  if [[ -z "$port" ]]; then
    echo "the server does not listen after ten seconds:"
    cat "$results/server.log"
    exit 1
  fi
  # shellcheck disable=SC2034  # the script that sources this file uses it
  client=("$build/bin/longstream" --server "127.0.0.1:$port" --wait 60)
}
