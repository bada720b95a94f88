#!/usr/bin/env python3
"""clang-tidy over every C++ source that is shipped, and over the lock annotations.

Paths given on the command line are read instead: `tidy.py tests` reads the tests, which are not free
of diagnostics yet. --changed and --base restrict it to the sources that changed
(changed_sources.py). Every machine has one version of clang-tidy, from PyPI, in build/venv-tidy:
Debian's looks for findings in the headers of the system too and drops them, which takes it twice the
time.

It remembers sources without diagnostics under $XDG_CACHE_HOME/longstream-tidy (~/.cache), by a hash
of everything that clang-tidy reads, and does not read them again until something changes.
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

# The database is written for GCC, and clang does not know some of its options. -Wthread-safety checks
# annotations such as GUARDED_BY, which GCC ignores. GCC 12's std::stable_sort uses functions that are
# deprecated by now; GCC warns about deprecated functions in our own code.
EXTRA_ARGUMENTS = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wthread-safety",
                   "--extra-arg=-Wno-deprecated-declarations")

# The source file of a part of a preprocessed text.
LINE_MARKER = re.compile(rb'^# \d+ "([^"]+)"', re.MULTILINE)

# Where one diagnostic ends and the next begins.
DIAGNOSTIC = re.compile(r"\n(?=\S+:\d+:\d+: (?:error|warning): )")


def installed():
    """The path of clang-tidy. The first call installs it."""
    here = pathlib.Path(__file__).resolve().parent
    repository = here.parents[1]
    python = subprocess.run(
        [repository / "tools/setup_venv.sh", repository / "build/venv-tidy",
         here / "requirements.txt"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return pathlib.Path(python).with_name("clang-tidy")


def sources(root, build, below):
    """The database's sources in the tree (not in the build) below one of the paths, each with all its
    entries."""
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
    """The arguments of a compiler's command that decide what it reads."""
    words = shlex.split(command)
    # The compiler and its launcher come before the first option.
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    writes = {"-c": 1, "-MD": 1, "-o": 2, "-MT": 2, "-MF": 2}
    arguments, i = [], 0
    while i < len(words):
        if words[i] not in writes:
            arguments.append(words[i])
        i += writes.get(words[i], 1)
    return arguments


class Remembered:
    """Sources without diagnostics: an empty file for each, named by the hash."""

    def __init__(self, root, program):
        cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        self._directory = pathlib.Path(cache) / "longstream-tidy"
        self._root = f"{root}/".encode()
        version = subprocess.run([program, "--version"], capture_output=True, check=True)
        self._common = version.stdout + " ".join(EXTRA_ARGUMENTS).encode()
        for checks in sorted(root.rglob(".clang-tidy")):
            self._common += str(checks.relative_to(root)).encode() + checks.read_bytes()

    def file(self, commands):
        """The file that remembers the source of these commands; None: the source cannot be read."""
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
            # The hash is the same for a tree in another place.
            key.update((command["command"].encode() + text.stdout).replace(self._root, b""))
            # Comments and inactive code: the preprocessor drops them from files of the tree.
            for path in sorted(set(LINE_MARKER.findall(text.stdout))):
                if path.startswith(self._root) and os.path.isfile(path):
                    key.update(pathlib.Path(os.fsdecode(path)).read_bytes())
        return self._directory / key.hexdigest()

    def add(self, file):
        """If there is no room for the file, the source is read again next time."""
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
        # A header's diagnostics appear once per source that includes it.
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
