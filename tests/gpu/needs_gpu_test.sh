#!/usr/bin/env bash
# Without a GPU a program prints one sentence that says so and exits with status 2.
# Usage: needs_gpu_test.sh PROGRAM
set -uo pipefail
output=$(CUDA_VISIBLE_DEVICES='' "$1" 2>&1)
status=$?
if [[ $status != 2 || $output != "no CUDA device: "* || $output == *$'\n'* ]]; then
  echo "status $status:"
  echo "$output"
  exit 1
fi
