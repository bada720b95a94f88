#!/usr/bin/env python3
"""Checks that clang-format, with the repository's .clang-format, would not change any C or C++
file."""

import subprocess
import sys

import source_tree


def main():
    root = source_tree.parse_root(__doc__)
    paths = source_tree.files(root, source_tree.CXX_SUFFIXES)
    problems = []
    if paths:
        result = subprocess.run(
            ["clang-format", "--dry-run", "-Werror", "--ferror-limit=1", *map(str, paths)],
            cwd=root, capture_output=True, text=True, check=False)
        problems = [line for line in result.stderr.splitlines() if ": error: " in line]
        if result.returncode != 0 and not problems:
            problems = [result.stderr]
    return source_tree.report("format", problems)


if __name__ == "__main__":
    sys.exit(main())
