# Scripts that serve the demo models source this file. start_server MODEL_FLAG... starts a server on
# free ports and sets `client`, the command line of the client for it. `results` is a temporary
# directory. When the script ends, the server is stopped and the directory is removed.

build=build/release
results=$(mktemp -d)
server=""

stop_server() {
  if [[ -n "$server" ]]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" || echo "the server ended with status $?"
  fi
  rm -rf "$results"
}
trap stop_server EXIT

start_server() {
  # The server picks free ports and writes them to its log.
  "$build/bin/longstream-server" "$@" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
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
  local port
  port=$(sed -n 's/.*"listening","port":"\([0-9]*\)".*/\1/p' "$results/server.log")
  if [[ -z "$port" ]]; then
    echo "the server does not listen after ten seconds:"
    cat "$results/server.log"
    exit 1
  fi
  client=("$build/bin/longstream" --server "127.0.0.1:$port" --wait 60)
}
