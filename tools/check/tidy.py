#!/usr/bin/env python3
"""clang-tidy over every C++ source that is shipped, and over the lock annotations.

Paths given on the command line are read instead: `tidy.py tests` reads the tests, which nobody has
made free of diagnostics yet. --changed and --base restrict it to the sources that changed
(changed_sources.py). The clang-tidy is of one
version everywhere, from PyPI, in build/venv-tidy: Debian's looks for findings in the headers of the
system too and drops them, which takes it twice the time.

A source without diagnostics is remembered, by a hash of all that clang-tidy reads of it, under
$XDG_CACHE_HOME/longstream-tidy (~/.cache), so that it is not read again until something changes.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import changed_sources
import source_tree

SHIPPED = ["kernels", "backends", "service", "client"]

# When one of these changes, every source is read.
RULES = (pathlib.Path(".clang-tidy"), pathlib.Path("tools/check/requirements.txt"))

# The database is written for GCC, some of whose options clang does not know. -Wthread-safety is
# what the annotations GUARDED_BY and the like are for; GCC ignores them. std::stable_sort of GCC 12
# uses what the language has deprecated since; of what our own code uses, GCC warns.
EXTRA_ARGUMENTS = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wthread-safety",
                   "--extra-arg=-Wno-deprecated-declarations")

# A file that a preprocessed text comes from.
LINE_MARKER = re.compile(rb'^# \d+ "([^"]+)"', re.MULTILINE)

# Where one diagnostic ends and the next begins.
DIAGNOSTIC = re.compile(r"\n(?=\S+:\d+:\d+: (?:error|warning): )")


def installed():
    """Where clang-tidy is, which the first call installs."""
    here = pathlib.Path(__file__).resolve().parent
    repository = here.parents[1]
    python = subprocess.run(
        [repository / "models/setup_venv.sh", repository / "build/venv-tidy",
         here / "requirements.txt"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return pathlib.Path(python).with_name("clang-tidy")


def sources(root, build, below):
    """The database's sources that lie in the tree (not in the build), below one of the paths, and
    all entries that it has of each."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    in_tree = set(source_tree.files(root, (".cc",)))
    found = {}
    for command in commands:
        path = pathlib.Path(command["file"])
        if path.is_relative_to(root) and path.relative_to(root) in in_tree:
            found.setdefault(path.relative_to(root), []).append(command)
    return {path: found[path] for path in sorted(found)
            if any(path.is_relative_to(prefix) for prefix in below)}


def reading(command):
    """The arguments of a compiler's command that are about what it reads."""
    words = shlex.split(command)
    # Before the first option stand the compiler and what runs it.
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    writes = {"-c": 1, "-MD": 1, "-o": 2, "-MT": 2, "-MF": 2}
    arguments, i = [], 0
    while i < len(words):
        if words[i] not in writes:
            arguments.append(words[i])
        i += writes.get(words[i], 1)
    return arguments


class Remembered:
    """What had no diagnostics: an empty file each, whose name is the hash."""

    def __init__(self, root, program):
        cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        self._directory = pathlib.Path(cache) / "longstream-tidy"
        self._root = f"{root}/".encode()
        version = subprocess.run([program, "--version"], capture_output=True, check=True)
        self._common = version.stdout + " ".join(EXTRA_ARGUMENTS).encode()
        for checks in sorted(root.rglob(".clang-tidy")):
            self._common += str(checks.relative_to(root)).encode() + checks.read_bytes()

    def file(self, commands):
        """Where the source is remembered that these commands compile; None: it cannot be read."""
        key = hashlib.sha256(self._common)
        for command in commands:
            read = ["clang++", "-E", "-dD", "-Wno-everything", *reading(command["command"])]
            try:
                text = subprocess.run(read, cwd=command["directory"], capture_output=True,
                                      check=False)
            except OSError:
                return None
            if text.returncode != 0:
                return None
            # The same in a tree that lies elsewhere.
            key.update((command["command"].encode() + text.stdout).replace(self._root, b""))
            # Comments, and what the preprocessor leaves out of the files of the tree itself.
            for path in sorted(set(LINE_MARKER.findall(text.stdout))):
                if path.startswith(self._root) and os.path.isfile(path):
                    key.update(pathlib.Path(os.fsdecode(path)).read_bytes())
        return self._directory / key.hexdigest()

    def add(self, file):
        """Without room for it, the source is read again the next time."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError:
            pass


def tidy(program, root, build, path, commands, remembered):
    """Returns the diagnostics of one source, each with the source lines clang-tidy shows."""
    file = remembered.file(commands)
    if file is not None and file.exists():
        return []
    result = subprocess.run(
        [program, "--quiet", "-p", build, *EXTRA_ARGUMENTS, path],
        cwd=root, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        if file is not None and file == remembered.file(commands):  # not changed meanwhile
            remembered.add(file)
        return []
    output = result.stdout.replace(f"{root}/", "").strip()
    return DIAGNOSTIC.split(output) if output else [result.stderr.strip()]


def findings(root, build, paths, jobs):
    """The diagnostics of all sources."""
    program = installed()
    remembered = Remembered(root, program)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = pool.map(
            lambda path: tidy(program, root, build, path, paths[path], remembered), paths)
        # A header's diagnostics come once for each source that includes it.
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source_tree.add_root_argument(parser)
    parser.add_argument("--build", type=pathlib.Path,
                        help="the build directory, <root>/build/release by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--changed", action="store_true",
                        help="only what changed in the last day before HEAD")
    parser.add_argument("--base", metavar="COMMIT", help="only what changed since this commit")
    parser.add_argument("below", nargs="*", default=SHIPPED,
                        help="directories or files, relative to the root; %(default)s")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    build = (arguments.build or root / "build/release").resolve()
    paths = sources(root, build, arguments.below)
    problems = [] if paths else [f"{build}: no source of the tree in compile_commands.json"]
    if arguments.changed or arguments.base:
        try:
            selected, reason = changed_sources.select(root, list(paths), arguments.below,
                                                      arguments.base, RULES)
        except subprocess.CalledProcessError as error:
            return source_tree.report("tidy", [error.stderr.strip()])
        paths = {path: paths[path] for path in selected}
        print(f"tidy reads {reason}", flush=True)
    if paths:
        problems = findings(root, build, paths, arguments.jobs)
    return source_tree.report(f"tidy ({len(paths)} sources)", problems)


if __name__ == "__main__":
    sys.exit(main())
