"""Finds the files that the checks read: sources of this project, without build trees and generated
code."""

import argparse
import pathlib

CXX_SUFFIXES = (".h", ".c", ".cc", ".cu", ".cuh")
SKIPPED_DIRECTORIES = ("build", "__pycache__")


def parse_root(description):
    """Parses the command line of a check that only has the option --root. Returns the root
    directory."""
    parser = argparse.ArgumentParser(description=description)
    add_root_argument(parser)
    return parser.parse_args().root


def add_root_argument(parser):
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=pathlib.Path, default=repository,
                        help="the tree to check; default: this repository")


def directories(root):
    """Returns root and all directories below it, as paths relative to root, in a fixed order."""
    found = [pathlib.Path(".")]
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_dir() and not any(skipped(part) for part in relative.parts):
            found.append(relative)
    return found


def skipped(directory_name):
    return directory_name.startswith(".") or directory_name in SKIPPED_DIRECTORIES


def files(root, suffixes):
    """Returns all files below root with one of the suffixes (or names), relative to root."""
    return [
        path.relative_to(root)
        for directory in directories(root)
        for path in sorted((root / directory).iterdir())
        if path.is_file() and (path.suffix in suffixes or path.name in suffixes)
    ]


def report(rule, problems):
    """Prints the problems, or that there are none. Returns the exit status."""
    for problem in problems:
        print(problem)
    print(f"{rule}: {len(problems)} problem(s)" if problems else f"{rule}: ok")
    return 1 if problems else 0
