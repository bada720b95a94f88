#!/usr/bin/env bash
# An installed server runs in a root that holds what its image would: the C library, the libraries that
# deploy/images/copy_libraries.sh finds, the server and a model. There is no shell, and the user may
# write nothing. Usage: image_root_test.sh PREFIX MODEL
# Exit code 77: it was not run.
set -euo pipefail

prefix=$1
model=$2
images=$(dirname "$0")/../../deploy/images
if ((EUID != 0)); then
  echo "image_root_test.sh: not run, because chroot needs root"
  exit 77
fi

root=$(mktemp -d)
log=$root.log
server=
finish() {
  status=$?
  [[ -z $server ]] || kill -KILL "$server" 2>/dev/null || true
  ((status == 0)) || cat "$log" >&2
  rm -rf "$root" "$log"
}
trap finish EXIT

"$images/copy_libraries.sh" "$prefix" "$root"
"$images/copy_c_library.sh" "$prefix/bin/longstream-server" "$root"
mkdir -p "$root/opt" "$root/models"
cp -r "$prefix" "$root/opt/longstream"
cp -r "$model" "$root/models/m"
chmod 0755 "$root"

# The Job that checks a store runs the client (deploy/kubernetes/by-hand/store-check.yaml).
chroot --userspec=10001:10001 "$root" /opt/longstream/bin/longstream store check --help >"$log"
# A chat page with many users has a gateway of its own (deploy/README.md).
chroot --userspec=10001:10001 "$root" /opt/longstream/bin/longstream-gateway --help >"$log"

# Without /proc, which a container has, the server does not know where its plugins are.
plugins=$(cd "$prefix" && find . -type d -path '*/longstream/plugins')
chroot --userspec=10001:10001 "$root" /opt/longstream/bin/longstream-server --model m=/models/m \
  --plugins "/opt/longstream/$plugins" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  2>"$log" &
server=$!
until grep -qs '"model_ready"' "$log"; do
  kill -0 "$server"
  sleep 0.05
done
kill -TERM "$server"
wait "$server"
server=
echo "the server runs in the root of an image"
