#!/usr/bin/env bash
# Copies the shared libraries that the programs and plugins below PREFIX load, and files named after
# them, to TO, under the same paths, for an image that only has the C library:
#   copy_libraries.sh PREFIX TO [FILE ...]
set -euo pipefail

prefix=$1
to=$2
shift 2

# The C library belongs to the image: its parts must have one version.
of_c='/(ld-linux-x86-64|libc|libm|libmvec|libpthread|libdl|librt|libresolv|libnss_[a-z]+)\.so\.[0-9]+$'

find "$prefix" -type f \( -path '*/bin/*' -o -name '*.so' \) -print0 |
  xargs -0 ldd |
  awk '/not found/ { print "copy_libraries.sh: not found: " $1 > "/dev/stderr"; failed = 1 }
       $2 == "=>" && $3 ~ /^\// { print $3 }
       END { exit failed }' |
  { grep -Ev "$of_c" || true; } | sort -u |
  while read -r library; do
    # The name that programs look for, with the content of the file that it leads to.
    install -D -m 0644 "$(readlink -f "$library")" "$to$library"
  done

for file in "$@"; do
  install -D -m 0644 "$(readlink -f "$file")" "$to$file"
done
