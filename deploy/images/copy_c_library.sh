#!/usr/bin/env bash
# Copies the parts of the C library that PROGRAM loads, which a base image has, to ROOT, under the same
# paths: copy_c_library.sh PROGRAM ROOT
set -euo pipefail

ldd "$1" | grep -Eo '/[^ ]*/(ld-linux-x86-64|lib(c|m|mvec|resolv))\.so[^ ]*' |
  while read -r part; do install -D "$(readlink -f "$part")" "$2$part"; done
