#!/usr/bin/env python3
"""Checks that only words (comments, docstrings, documents) changed between two revisions.

`only_words.py BASE [HEAD] [--strings]` compares the tokens of every file that differs between BASE
and HEAD (without HEAD: the working tree) and prints differences other than words. A renamed file is
compared with its old version. With --strings, the text of string literals may differ too. Both
versions of such a text are printed: review them, because a program may read the string.
"""

import argparse
import difflib
import pathlib
import subprocess
import sys

import source_tree
import word_tokens

DOCUMENT_SUFFIXES = (".md", ".svg")
MAX_DIFFERENCES = 5  # at most this many differences of one file are printed


def git(root, *arguments):
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout


class Revision:
    """A revision of the repository at `root`, or its working tree if `name` is None."""

    def __init__(self, root, name):
        self.root = root
        self.name = name

    def read(self, path):
        if self.name is None:
            return (self.root / path).read_bytes()
        return git(self.root, "show", f"{self.name}:{path}")


def changes(root, base, head):
    """Returns (status, mode before, mode after, path before, path after) of each file that
    differs."""
    revisions = [base] if head is None else [base, head]
    fields = git(root, "diff", "-M", "--raw", "-z", *revisions).decode().split("\0")
    found = []
    while fields[0]:
        before_mode, after_mode, _, _, status = fields.pop(0)[1:].split()
        before = fields.pop(0)
        after = fields.pop(0) if status[0] in "RC" else before
        found.append((status[0], before_mode, after_mode, before, after))
    if head is None:
        new = git(root, "ls-files", "--others", "--exclude-standard", "-z").decode().split("\0")
        found += [("A", "", "", path, path) for path in new if path]
    return found


def shown(tokens):
    return " ".join(token.text + (repr(token.words) if token.words else "") for token in tokens)


def cut(text, most=100):
    return text if len(text) <= most else text[:most] + " ..."


def token_differences(path, old, new, key):
    """Yields a message for each place where the keys of two lists of tokens differ."""
    first = 0
    while first < min(len(old), len(new)) and key(old[first]) == key(new[first]):
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and key(old[-1 - last]) == key(new[-1 - last]):
        last += 1
    old, new = old[first:len(old) - last], new[first:len(new) - last]
    matcher = difflib.SequenceMatcher(None, [*map(key, old)], [*map(key, new)], autojunk=False)
    for what, begin, end, new_begin, new_end in matcher.get_opcodes():
        if what != "equal":
            near = new[new_begin:new_begin + 1] or new[-1:] or old[begin:begin + 1]
            yield (f"{path}:{near[0].line}: before: {cut(shown(old[begin:end]))}\n"
                   f"    after: {cut(shown(new[new_begin:new_end]))}")


def file_differences(before, after, old_bytes, new_bytes, allow_strings):
    """Returns the differences of one file that are not words, and the strings that differ."""
    try:
        old_text, new_text = old_bytes.decode(), new_bytes.decode()
        old, new = word_tokens.tokens_of(before, old_text), word_tokens.tokens_of(after, new_text)
    except (UnicodeDecodeError, word_tokens.Unreadable) as error:
        return [f"{after}: cannot be compared: {error}"], []
    if old is None or new is None:
        return [f"{after}: changed, and is neither a document nor in a language known here"], []
    key = (lambda token: token.text) if allow_strings else (lambda token: token[1:])
    found = list(token_differences(after, old, new, key))
    if found:
        more = len(found) - MAX_DIFFERENCES
        return found[:MAX_DIFFERENCES] + ([f"{after}: {more} more"] if more > 0 else []), []
    strings = [f'{after}:{token.line}: "{was.words}"\n    now: "{token.words}"'
               for was, token in zip(old, new) if was.words != token.words]
    return [], strings


def compare(root, base, head, allow_strings):
    """Returns the problems and the changed strings of all files."""
    problems, strings = [], []
    for status, before_mode, after_mode, before, after in changes(root, base, head):
        is_document = pathlib.PurePath(after).suffix in DOCUMENT_SUFFIXES
        if status in "AD" or before_mode != after_mode:
            what = {"A": "added", "D": "deleted"}.get(status, f"mode {before_mode} -> {after_mode}")
            if status not in "AD" or not is_document:
                problems.append(f"{after}: {what}")
            continue
        old, new = Revision(root, base).read(before), Revision(root, head).read(after)
        if old == new or is_document:
            continue
        more_problems, more_strings = file_differences(before, after, old, new, allow_strings)
        problems += more_problems
        strings += more_strings
    return problems, strings


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    source_tree.add_root_argument(parser)
    parser.add_argument("base", metavar="BASE", help="a revision")
    parser.add_argument("head", metavar="HEAD", nargs="?", help="a revision; else the working tree")
    parser.add_argument("--strings", action="store_true", help="allow different texts of strings")
    arguments = parser.parse_args()
    problems, strings = compare(arguments.root, arguments.base, arguments.head, arguments.strings)
    for string in strings:
        print(string)
    return source_tree.report("only_words", problems)


if __name__ == "__main__":
    sys.exit(main())
