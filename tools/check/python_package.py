#!/usr/bin/env python3
"""Checks the Python package in client/python: its style, its types, its installation, its tests.

ruff and mypy come from PyPI, in build/venv-python. If they find nothing, pip installs the package
into a new environment, as a user does, with the newest gRPC and protobuf of PyPI. The tests of
tests/client/python run there too; `make test` runs them with those of Debian. Needs the release
build.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import source_tree

PACKAGE = pathlib.Path("client/python")
TESTS = pathlib.Path("tests/client/python")
# The tests that take the longest only run with the versions of Debian.
SLOW = ("random_kills_test.py",)


def run(command, problem, **options):
    """Runs a command. Returns its output and the problem if it fails."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False, **options)
    return [f"{result.stdout}{problem}"] if result.returncode else []


def tools():
    """Returns the folder of the tools' programs. The first call installs them."""
    here = pathlib.Path(__file__).resolve().parent
    repository = here.parents[1]
    python = subprocess.run(
        [repository / "tools/setup_venv.sh", repository / "build/venv-python",
         here / "requirements-python.txt"], stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(python.stdout.strip()).parent


def check_style(package, bin_folder):
    ruff = bin_folder / "ruff"
    return (run([ruff, "check", "--no-cache", "--output-format=concise", "."],
                f"{PACKAGE}: ruff check fails", cwd=package)
            + run([ruff, "format", "--no-cache", "--diff", "."],
                  f"{PACKAGE}: not formatted: run ruff format", cwd=package))


def check_types(package, protos, bin_folder, folder):
    """Checks a copy of the package, with its stubs, and the examples."""
    copy = folder / "types"
    shutil.copytree(package / "longstream", copy / "longstream")
    subprocess.run([bin_folder / "python", package / "generate_stubs.py", protos, copy], check=True)
    mypy = [bin_folder / "mypy", "--config-file", package / "pyproject.toml", "--cache-dir",
            folder / "mypy"]
    problems = run([*mypy, "-p", "longstream"], f"{PACKAGE}: mypy --strict fails", cwd=copy)
    for example in sorted((package / "examples").glob("*.py")):
        problems += run([*mypy, example], f"{example}: mypy --strict fails", cwd=copy)
    return problems


def check_installed(root, folder):
    """Installs the package as a user does, and runs its tests."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    bin_folder = folder / "venv/bin"
    problems = run([bin_folder / "pip", "install", "--quiet", root / PACKAGE],
                   f"{PACKAGE}: pip install fails")
    if problems:
        return problems
    environment = {**os.environ, "LONGSTREAM_SOURCE_DIR": str(root),
                   "LONGSTREAM_BINARY_DIR": str(root / "build/release")}
    for test in sorted((root / TESTS).glob("*_test.py")):
        if test.name not in SLOW:
            problems += run([bin_folder / "python", "-B", test],
                            f"{TESTS / test.name} fails with the newest packages of PyPI",
                            env=environment)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source_tree.add_root_argument(parser)
    root = parser.parse_args().root.resolve()
    bin_folder = tools()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        problems = check_style(root / PACKAGE, bin_folder)
        problems += check_types(root / PACKAGE, root / "proto", bin_folder, folder)
        problems = problems or check_installed(root, folder)
    return source_tree.report("python_package", problems)


if __name__ == "__main__":
    sys.exit(main())
