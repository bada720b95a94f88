#!/usr/bin/env python3
"""Checks that pages have short lines and only mention files that exist.

In Markdown pages, a line of prose has at most 140 characters; tables, code and addresses may be
longer. A link must lead to an existing file, and to an existing heading if it names one. Every path
of this tree, and every source file name in `backquotes`, must name an existing file or folder; `*`
matches any characters. Pages and pictures of docs/ that comments in sources mention must exist too.
"""

import fnmatch
import pathlib
import re
import sys

import source_tree

MAX_LINE = 140
PAGES = (".md",)
SOURCES = source_tree.CXX_SUFFIXES + (".py", ".sh", ".proto", "CMakeLists.txt", "Makefile")
# Names that are allowed although no such file exists: examples, and names that a script gives to
# packed files.
EXAMPLES = {"acme.cc", "run-demo.sh"}

LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
SOURCE_NAME = re.compile(r"[\w*-]+(?:\.\w+)*\.(?:h|cc|cu|cuh|py|sh|proto|cmake)")
DOCUMENT = re.compile(r"docs/[\w-]+\.(?:md|svg)")


def lines_outside_code(text):
    """Yields (number, line) for each line outside code blocks."""
    fenced, blank = False, True
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        # Indented code follows an empty line. Indented lines of a list item do not.
        indented = line.startswith("    ") and blank
        blank = not line.strip() or indented
        if not fenced and not indented:
            yield number, line


def heading_ids(text):
    """Returns the fragments that links to this page may have. GitHub makes them from headings."""
    ids = set()
    for _, line in lines_outside_code(text):
        if re.match(r"#+ ", line):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            ids.add(words.replace(" ", "-"))
    return ids


def long_lines(text):
    for number, line in lines_outside_code(text):
        if len(line) > MAX_LINE and " " in line.strip() and not line.lstrip().startswith("|"):
            yield number, f"{len(line)} characters, over {MAX_LINE}"


def broken_links(root, page, text):
    for number, line in lines_outside_code(text):
        for target in LINK.findall(line):
            path, _, fragment = target.partition("#")
            if ":" in path:
                continue  # an address
            file = root / page.parent / path if path else root / page
            if not file.exists():
                yield number, f"{target} leads to no file"
            elif fragment and fragment not in heading_ids(file.read_text(encoding="utf-8")):
                yield number, f"{target} leads to no heading"


class Tree:
    """The paths and file names that exist in the tree."""

    def __init__(self, root):
        directories = source_tree.directories(root)
        files = [path for directory in directories for path in (root / directory).iterdir()
                 if path.is_file()]
        self._paths = {path.as_posix() for path in directories}
        self._paths |= {path.relative_to(root).as_posix() for path in files}
        self._names = {path.name for path in files}
        tops = sorted(path.as_posix() for path in directories if len(path.parts) == 1)
        self.mention = re.compile(r"(?<![\w./<-])(?:" + "|".join(tops or ["/"]) + r")/[\w./*-]*")

    def has_path(self, path):
        return self._has(self._paths, path)

    def has_name(self, name):
        return self._has(self._names, name)

    @staticmethod
    def _has(known, wanted):
        return wanted in known or "*" in wanted and bool(fnmatch.filter(known, wanted))


def unknown_paths(tree, text):
    for number, line in enumerate(text.splitlines(), 1):
        for path in tree.mention.findall(line):
            path = path.rstrip("/.")
            if not tree.has_path(path):
                yield number, f"{path} is not in this tree"
        for code in CODE.findall(line):
            if SOURCE_NAME.fullmatch(code) and code not in EXAMPLES and not tree.has_name(code):
                yield number, f"no file is named {code}"


def unknown_documents(root, text):
    for number, line in enumerate(text.splitlines(), 1):
        for path in DOCUMENT.findall(line):
            if not (root / path).exists():
                yield number, f"{path} does not exist"


def main():
    root = source_tree.parse_root(__doc__)
    tree = Tree(root)
    problems = []
    for page in source_tree.files(root, PAGES):
        text = (root / page).read_text(encoding="utf-8")
        found = [*long_lines(text), *broken_links(root, page, text), *unknown_paths(tree, text)]
        problems += [f"{page}:{number}: {message}" for number, message in sorted(found)]
    for path in source_tree.files(root, SOURCES):
        text = (root / path).read_text(encoding="utf-8")
        problems += [f"{path}:{number}: {message}"
                     for number, message in unknown_documents(root, text)]
    return source_tree.report("prose", problems)


if __name__ == "__main__":
    sys.exit(main())
