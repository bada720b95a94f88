#!/usr/bin/env python3
"""Runs clang-tidy on every shipped C++ source. Also checks the lock annotations.

If paths are given, reads the sources there instead: `tidy.py tests` reads the tests, which still
have diagnostics. --changed and --base restrict it to sources that changed (changed_sources.py).
Installs clang-tidy from PyPI in build/venv-tidy, so that every machine has the same version.
Debian's version takes twice as long, because it also searches the system headers and then drops
what it found there.

Remembers sources without diagnostics in $XDG_CACHE_HOME/longstream-tidy (by default in ~/.cache),
by a hash of everything that clang-tidy reads for them. Does not read these sources again until that
hash changes.
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
import tempfile

import changed_sources
import compile_commands
import source_tree

SHIPPED = ["kernels", "backends", "service", "client", "gateway"]

# If one of these files changes, every source is read.
RULES = (pathlib.Path(".clang-tidy"), pathlib.Path("tools/check/requirements.txt"))

# The compilation database is for GCC, and clang does not know some options of GCC. -Wthread-safety
# checks annotations such as GUARDED_BY, which GCC ignores. std::stable_sort of GCC 12 uses
# functions that are deprecated now, so this warning is off; GCC still warns about deprecated
# functions in our own code.
EXTRA_ARGUMENTS = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wthread-safety",
                   "--extra-arg=-Wno-deprecated-declarations")

# Matches the line of a preprocessed text that names the source file of the following lines.
LINE_MARKER = re.compile(rb'^# \d+ "([^"]+)"', re.MULTILINE)

# Matches the place where one diagnostic ends and the next begins.
DIAGNOSTIC = re.compile(r"\n(?=\S+:\d+:\d+: (?:error|warning): )")


def installed():
    """Returns the path of clang-tidy. The first call installs it."""
    here = pathlib.Path(__file__).resolve().parent
    repository = here.parents[1]
    python = subprocess.run(
        [repository / "tools/setup_venv.sh", repository / "build/venv-tidy",
         here / "requirements.txt"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return pathlib.Path(python).with_name("clang-tidy")


def sources(root, build, below):
    """Returns the sources in the compilation database that lie below one of the paths and not in
    the build, each with all its entries."""
    in_tree = set(source_tree.files(root, (".cc",)))
    found = {}
    for command in compile_commands.read(build):
        path = pathlib.Path(command["file"])
        if path.is_relative_to(root) and path.relative_to(root) in in_tree:
            found.setdefault(path.relative_to(root), []).append(command)
    return {path: found[path] for path in sorted(found)
            if any(path.is_relative_to(prefix) for prefix in below)}


def reading(command):
    """Returns the arguments of a compiler command that decide which files and macros the compiler
    reads."""
    words = shlex.split(command)
    # Drop the launcher and the compiler, which come before the first option.
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    writes = {"-c": 1, "-MD": 1, "-o": 2, "-MT": 2, "-MF": 2}
    arguments, i = [], 0
    while i < len(words):
        if words[i] not in writes:
            arguments.append(words[i])
        i += writes.get(words[i], 1)
    return arguments


class Remembered:
    """The remembered sources without diagnostics. Each has an empty file, named by its hash."""

    def __init__(self, root, program):
        cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        self._directory = pathlib.Path(cache) / "longstream-tidy"
        self._root = f"{root}/".encode()
        version = subprocess.run([program, "--version"], capture_output=True, check=True)
        self._common = version.stdout + " ".join(EXTRA_ARGUMENTS).encode()
        for checks in sorted(root.rglob(".clang-tidy")):
            self._common += str(checks.relative_to(root)).encode() + checks.read_bytes()

    def file(self, commands):
        """Returns the file that remembers the source of these commands, or None if the source
        cannot be preprocessed."""
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
            # Remove the root, so that a tree in another place has the same hash.
            key.update((command["command"].encode() + text.stdout).replace(self._root, b""))
            # Hash the files of the tree too: the preprocessor drops comments and inactive code.
            for path in sorted(set(LINE_MARKER.findall(text.stdout))):
                if path.startswith(self._root) and os.path.isfile(path):
                    key.update(pathlib.Path(os.fsdecode(path)).read_bytes())
        return self._directory / key.hexdigest()

    def add(self, file):
        """Remembers a source. If the disk is full, the source is just read again next time."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError:
            pass


def tidy(program, root, database, path, commands, remembered):
    """Returns the diagnostics of one source, each with the source lines clang-tidy shows."""
    file = remembered.file(commands)
    if file is not None and file.exists():
        return []
    result = subprocess.run(
        [program, "--quiet", "-p", database, *EXTRA_ARGUMENTS, path],
        cwd=root, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        # The source did not change during the check.
        if file is not None and file == remembered.file(commands):
            remembered.add(file)
        return []
    output = result.stdout.replace(f"{root}/", "").strip()
    return DIAGNOSTIC.split(output) if output else [result.stderr.strip()]


def findings(root, paths, jobs):
    """Returns the diagnostics of all sources."""
    program = installed()
    remembered = Remembered(root, program)
    with (tempfile.TemporaryDirectory() as database,
          concurrent.futures.ThreadPoolExecutor(jobs) as pool):
        # The build's own database has batches of sources if LONGSTREAM_UNITY is on.
        commands = list(itertools.chain.from_iterable(paths.values()))
        pathlib.Path(database, "compile_commands.json").write_text(json.dumps(commands),
                                                                   encoding="utf-8")
        found = pool.map(
            lambda path: tidy(program, root, database, path, paths[path], remembered), paths)
        # A diagnostic in a header appears once for each source that includes the header. Keep one.
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source_tree.add_root_argument(parser)
    parser.add_argument("--build", type=pathlib.Path,
                        help="the build directory; default: <root>/build/release")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--changed", action="store_true",
                        help="only sources that changed in the last day before HEAD")
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
        problems = findings(root, paths, arguments.jobs)
    return source_tree.report(f"tidy ({len(paths)} sources)", problems)


if __name__ == "__main__":
    sys.exit(main())
