"""Finds the function definitions of a C++ source and how many lines each has.

This is not a parser. It replaces comments, literals and preprocessor lines by blanks and follows
the braces. A brace at namespace or class level after a parameter list counts as the beginning of a
function's body. For the style of this repository the result is exact.
"""

import re

BLANKED = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*
    """, re.VERBOSE | re.DOTALL | re.MULTILINE)

SCOPE = re.compile(r"(^|\s)(namespace|class|struct|union|enum)\b")
# The beginning of a member initialiser list after a parameter list: `) :` or `) noexcept :`.
INITIALISERS = re.compile(r"\)\s*(noexcept\s*(\([^)]*\))?\s*)?:(?!:)")
FUNCTION_NAME = re.compile(
    r"((?:\w+::)*(?:operator\s*(?:\(\)|[^\s\w(]+|\w+)|~?\w+))\s*(?:<[^<>]*>)?\s*\(")
# Prefixes that do not change the kind of a declaration.
PREFIX = re.compile(
    r"\s*((public|private|protected)\s*:|template\s*<.*?>(?=\s*\w))?\s*", re.DOTALL)


def blank(source):
    """Returns the source with comments, literals and directives replaced by blanks. Keeps the
    newlines."""
    return BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def matching_brace(text, opening):
    """Returns the position of the brace that closes the brace at `opening`, or the end of the
    text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def is_initialiser(header):
    """Returns whether the brace after `header` begins a braced value and not a body."""
    header = header.rstrip()
    if header.endswith(("=", ",", "(", "return")):
        return True
    return bool(INITIALISERS.search(header)) and not header.endswith((")", "}"))


def is_body(declaration):
    """Returns whether the brace after `declaration` (without its prefixes) begins a function's
    body."""
    parenthesis = declaration.find("(")
    if parenthesis < 0:
        return False
    scope = SCOPE.search(declaration)
    # `struct S f() {` returns a struct; `class LOCKABLE(x) S {` declares one.
    return scope is None or scope.start() > parenthesis or declaration.rstrip().endswith(")")


def without_prefixes(header):
    """Returns the declaration in a header, without access labels and template parameter lists."""
    while (end := PREFIX.match(header).end()) > 0:
        header = header[end:]
    return header


def name_of(declaration):
    match = FUNCTION_NAME.search(declaration)
    return match.group(1) if match else "<unnamed>"


def functions(source):
    """Yields (name, first line, number of lines) of each function definition. Lines count from
    1."""
    text = blank(source)
    header_start = 0
    position = 0
    delimiter = re.compile(r"[{};]")
    while (match := delimiter.search(text, position)) is not None:
        position = match.end()
        header = text[header_start:match.start()]
        if match.group() == "{" and is_initialiser(header):
            position = matching_brace(text, match.start()) + 1
            continue
        declaration = without_prefixes(header)
        if match.group() == "{" and is_body(declaration):
            first = text.count("\n", 0, match.start() - len(declaration)) + 1
            position = matching_brace(text, match.start()) + 1
            last = text.count("\n", 0, position) + 1
            yield name_of(declaration), first, last - first + 1
        header_start = position
