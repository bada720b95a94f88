#!/usr/bin/env python3
"""Checks that the SIMT tests of the ops have executed every compiled kernel.

Each instantiation of a template counts as a kernel. The tests compare the results of kernels with
the reference.

Usage: executed_kernels.py --nm NM --executed DIR PROGRAM...
Reads from DIR/<name of the program> the kernels that each program has executed
(executed_kernels.h).
"""

import argparse
import pathlib
import re
import subprocess
import sys


SYMBOL = re.compile(r"^([0-9a-f]+) [TtWwVv] (.+)$")
PART = re.compile(r"\[clone|::\{lambda")
KERNEL = re.compile(r"^(?:void )?longstream::cuda::(?:\(anonymous namespace\)::)?\w+Kernel[<(]")


def kernels_of(symbols):
    """{distance from the first byte: name} of the kernels that `nm -C` lists for a program."""
    start, kernels = None, {}
    for line in symbols.splitlines():
        if line.endswith(" __ehdr_start"):
            start = int(line.split()[0], 16)
        match = SYMBOL.match(line)
        # The compiler may give a lambda of a kernel, or a part of a kernel, a symbol of its own.
        if match and KERNEL.match(match[2]) and not PART.search(match[2]):
            kernels[int(match[1], 16)] = match[2]
    return {address - start: name for address, name in kernels.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--executed", type=pathlib.Path, required=True)
    parser.add_argument("programs", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()

    compiled, executed = set(), set()
    for program in arguments.programs:
        symbols = subprocess.run([arguments.nm, "-C", program], capture_output=True, text=True,
                                 check=True).stdout
        kernels = kernels_of(symbols)
        compiled.update(kernels.values())
        notes = arguments.executed / program.name
        for offset in notes.read_text().split() if notes.exists() else []:
            executed.add(kernels[int(offset, 16)])
    missing = sorted(compiled - executed)
    for name in missing:
        print(f"never executed: {name}")
    print(f"{len(executed)} of {len(compiled)} kernels were executed")
    sys.exit(1 if missing or not compiled else 0)


if __name__ == "__main__":
    main()
