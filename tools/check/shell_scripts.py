#!/usr/bin/env python3
"""Checks that shellcheck finds nothing in shell scripts."""

import subprocess
import sys

import source_tree

WITHOUT_SUFFIX = (".ci/run",)
EXCLUDED = "SC2016"  # words in single quotes are for another program, such as apt-get


def main():
    root = source_tree.parse_root(__doc__)
    paths = [*source_tree.files(root, (".sh",)),
             *(path for path in WITHOUT_SUFFIX if (root / path).exists())]
    problems = []
    if paths:
        result = subprocess.run(
            ["shellcheck", "--format=gcc", f"--exclude={EXCLUDED}", *map(str, paths)], cwd=root,
            capture_output=True, text=True, check=False)
        problems = (result.stdout + result.stderr).splitlines()
    return source_tree.report("shell_scripts", problems)


if __name__ == "__main__":
    sys.exit(main())
