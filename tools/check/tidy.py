#!/usr/bin/env python3
"""clang-tidy over every C++ source of the compilation database, and over the lock annotations.

Paths given on the command line restrict it to the sources below them.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import source_tree

# The database is written for GCC, some of whose options clang does not know. -Wthread-safety is
# what the annotations GUARDED_BY and the like are for; GCC ignores them.
EXTRA_ARGUMENTS = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wthread-safety")

# Where one diagnostic ends and the next begins.
DIAGNOSTIC = re.compile(r"\n(?=\S+:\d+:\d+: (?:error|warning): )")


def sources(root, build, below):
    """The database's sources that lie in the tree (not in the build), below one of the paths."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    in_tree = set(source_tree.files(root, (".cc",)))
    found = set()
    for command in commands:
        path = pathlib.Path(command["file"])
        if path.is_relative_to(root) and path.relative_to(root) in in_tree:
            found.add(path.relative_to(root))
    return sorted(path for path in found
                  if not below or any(path.is_relative_to(prefix) for prefix in below))


def tidy(root, build, path):
    """Returns the diagnostics of one source, each with the source lines clang-tidy shows."""
    result = subprocess.run(
        ["clang-tidy", "--quiet", "-p", build, *EXTRA_ARGUMENTS, path],
        cwd=root, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    output = result.stdout.replace(f"{root}/", "").strip()
    return DIAGNOSTIC.split(output) if output else [result.stderr.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source_tree.add_root_argument(parser)
    parser.add_argument("--build", type=pathlib.Path,
                        help="the build directory, <root>/build/release by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("below", nargs="*", help="directories or files, relative to the root")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    build = (arguments.build or root / "build/release").resolve()
    paths = sources(root, build, arguments.below)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        findings = pool.map(lambda path: tidy(root, build, path), paths)
        # A header's diagnostics come once for each source that includes it.
        problems = list(dict.fromkeys(itertools.chain.from_iterable(findings)))
    if not paths:
        problems = [f"{build}: no source of the tree in compile_commands.json"]
    return source_tree.report(f"tidy ({len(paths)} sources)", problems)


if __name__ == "__main__":
    sys.exit(main())
