"""Finds the function definitions of a C++ source and how many lines each has.

Not a parser: it follows braces over text with comments, literals and preprocessor lines blanked
out, and takes a brace at namespace or class level that follows a parameter list for a body. That
is exact for the style this repository is written in.
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
# A member initialiser list starts after the parameter list: `) :` or `) noexcept :`.
INITIALISERS = re.compile(r"\)\s*(noexcept\s*(\([^)]*\))?\s*)?:(?!:)")
FUNCTION_NAME = re.compile(
    r"((?:\w+::)*(?:operator\s*(?:\(\)|[^\s\w(]+|\w+)|~?\w+))\s*(?:<[^<>]*>)?\s*\(")
# Prefixes of a declaration that do not decide its kind.
PREFIX = re.compile(
    r"\s*((public|private|protected)\s*:|template\s*<.*?>(?=\s*\w))?\s*", re.DOTALL)


def blank(source):
    """The source with comments, literals and directives replaced by blanks, newlines kept."""
    return BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def matching_brace(text, opening):
    """The position of the brace that closes the one at `opening`, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def is_initialiser(header):
    """Whether the brace after `header` starts a braced value, not a body."""
    header = header.rstrip()
    if header.endswith(("=", ",", "(", "return")):
        return True
    return bool(INITIALISERS.search(header)) and not header.endswith((")", "}"))


def is_body(declaration):
    """Whether the brace after `declaration` (without its prefixes) starts a function's body."""
    parenthesis = declaration.find("(")
    if parenthesis < 0:
        return False
    scope = SCOPE.search(declaration)
    # `struct S f() {` returns a struct; `class LOCKABLE(x) S {` declares one.
    return scope is None or scope.start() > parenthesis or declaration.rstrip().endswith(")")


def without_prefixes(header):
    """The header from the declaration proper on: access labels, template lists are cut off."""
    while (end := PREFIX.match(header).end()) > 0:
        header = header[end:]
    return header


def name_of(declaration):
    match = FUNCTION_NAME.search(declaration)
    return match.group(1) if match else "<unnamed>"


def functions(source):
    """Yields (name, first line, number of lines) of each function definition, 1-based."""
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
