#!/usr/bin/env python3
"""Checks that files have at most 500 lines, functions at most 80 lines, folders at most 25 source
files, and that no folder is more than 3 levels below a top-level folder.

length_exceptions.txt lists the exceptions and their reasons.
"""

import ast
import pathlib
import sys

import cxx_functions
import source_tree

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_FOLDER_FILES = 25
MAX_FOLDER_DEPTH = 3  # levels below a top-level folder

SOURCE_SUFFIXES = source_tree.CXX_SUFFIXES + (
    ".py", ".sh", ".proto", ".cmake", "CMakeLists.txt", "Makefile")

FOLDER_SUFFIXES = source_tree.CXX_SUFFIXES + (".py", ".sh")


def python_functions(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def functions_of(path, source):
    if path.suffix in source_tree.CXX_SUFFIXES:
        return cxx_functions.functions(source)
    if path.suffix == ".py":
        return python_functions(source)
    return ()


def exceeding(root):
    """Yields (key, message) for everything over a limit. length_exceptions.txt uses the same
    keys."""
    for directory in source_tree.directories(root):
        if len(directory.parts) > MAX_FOLDER_DEPTH + 1:
            yield directory.as_posix(), f"{directory}: more than {MAX_FOLDER_DEPTH} folders deep"
        files = sum(path.suffix in FOLDER_SUFFIXES for path in (root / directory).iterdir())
        if files > MAX_FOLDER_FILES:
            yield (directory.as_posix(),
                   f"{directory}: {files} source files, over {MAX_FOLDER_FILES}")
    for path in source_tree.files(root, SOURCE_SUFFIXES):
        source = (root / path).read_text(encoding="utf-8")
        lines = source.count("\n")
        if lines > MAX_FILE_LINES:
            yield path.as_posix(), f"{path}: {lines} lines, over {MAX_FILE_LINES}"
        for name, first, length in functions_of(path, source):
            if length > MAX_FUNCTION_LINES:
                yield (f"{path.as_posix()}:{name}",
                       f"{path}:{first}: {name} has {length} lines, over {MAX_FUNCTION_LINES}")


def read_exceptions(path):
    """Returns key -> reason from lines `<path>[:<function>]  <reason>`. Lines that begin with # are
    comments."""
    exceptions = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition(" ")
            exceptions[key] = reason.strip()
    return exceptions


def main():
    root = source_tree.parse_root(__doc__)
    exceptions_file = root / "tools/check/length_exceptions.txt"
    exceptions = read_exceptions(exceptions_file) if exceptions_file.is_file() else {}
    found = dict(exceeding(root))
    name = pathlib.Path(exceptions_file).name
    problems = [message for key, message in found.items() if key not in exceptions]
    problems += [f"{name}: {key} is under all limits" for key in exceptions if key not in found]
    problems += [f"{name}: {key} has no reason" for key in exceptions if not exceptions[key]]
    return source_tree.report("lengths", problems)


if __name__ == "__main__":
    sys.exit(main())
