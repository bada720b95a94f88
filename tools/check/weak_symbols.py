#!/usr/bin/env python3
"""Checks that kernel object files for one instruction set define no weak code.

The linker keeps one of several copies of an inline function. If it keeps a copy that was compiled
with -mavx512f, a processor without AVX-512 crashes when baseline code calls it.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import source_tree

KERNELS = pathlib.PurePath("kernels")
# Objects of tests are allowed, because tests run on the machine that builds them.
TESTS = pathlib.PurePath("tests")
# -march=x86-64 is the baseline, which any processor can run.
INSTRUCTION_SET_FLAG = re.compile(r"\s-m(avx|fma|f16c|sse[34]|arch=(?!x86-64\s))")
OUTPUT = re.compile(r"\s-o\s+(\S+)")
# In the output of nm, W is a defined weak symbol, code or data; V is a weak data object.
WEAK_CODE = "W"


def instruction_set_objects(root, build):
    """Returns the objects of sources below kernels that are compiled with an instruction-set flag,
    without those of tests."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for command in commands:
        source = pathlib.PurePath(command["file"])
        if (root / KERNELS) in source.parents and INSTRUCTION_SET_FLAG.search(command["command"]):
            # CMake 3.25 writes no "output" entry, so take the path from the command.
            path = pathlib.Path(command["directory"]) / OUTPUT.search(command["command"])[1]
            if (build / TESTS) not in path.parents:
                yield path


def weak_code(path):
    listing = subprocess.run(["nm", "--demangle", "--defined-only", path],
                             capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        _, kind, name = line.split(" ", 2)
        if kind == WEAK_CODE:
            yield name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source_tree.add_root_argument(parser)
    parser.add_argument("--build", type=pathlib.Path,
                        help="the build directory; default: <root>/build/release")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    build = arguments.build or root / "build/release"
    objects = list(instruction_set_objects(root, build))
    problems = [] if objects else [f"{build}: no object of {KERNELS} has an instruction-set flag"]
    for path in objects:
        problems += [f"{path.relative_to(build)}: weak symbol {name}" for name in weak_code(path)]
    return source_tree.report("weak symbols", problems)


if __name__ == "__main__":
    sys.exit(main())
