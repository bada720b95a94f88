"""Divides a source into code, which a compiler or an interpreter reads, and words for people.

A token has `text`, its code, and `words`, the text of its string literals. Comments, docstrings of
Python and white space without meaning are dropped. A string that is also code (an included header,
inline assembly, an attribute, an expansion in a shell) is part of `text`. Comments that control a
tool (NOLINT, noqa) are code.

In doubt, words count as code, so that a change is reported. If a source cannot be divided,
Unreadable is raised.
"""

import ast
import collections
import pathlib
import re

Token = collections.namedtuple("Token", "line text words")

STRING = '""'  # the text of a token that is a string literal and nothing else


class Unreadable(Exception):
    """Raised if a source cannot be divided into tokens."""


def tokens_of(path, source):
    """Returns the tokens of a source, or None if its language is unknown."""
    path = pathlib.PurePath(path)
    first_line = source.partition("\n")[0]
    if path.suffix in (".h", ".c", ".cc", ".cu", ".cuh", ".proto", ".map"):
        return list(cxx_tokens(source))
    if path.suffix == ".py" or re.match(r"#!.*\bpython", first_line):
        return list(python_tokens(source))
    if path.suffix == ".sh" or re.match(r"#!.*\b(ba)?sh\b", first_line):
        return list(shell_tokens(source))
    if path.suffix == ".cmake" or path.name.endswith(".cmake.in") or path.name == "CMakeLists.txt":
        return list(cmake_tokens(source))
    if path.name == "Makefile":
        return list(make_tokens(source))
    return None


def with_lines(pattern, source):
    """Yields (line, match) for successive matches of a pattern that together cover the whole
    source."""
    line = 1
    position = 0
    while position < len(source):
        match = pattern.match(source, position)
        yield line, match
        line += source.count("\n", position, match.end())
        position = match.end()


STEERING = re.compile(r"NOLINT\w*(?:\([^)]*\))?|clang-format o(?:n|ff)\b|"
                      r"noqa\b[^\n]*|shellcheck [^\n]*")


def steering(line, comment):
    for match in STEERING.finditer(comment):
        yield Token(line, match.group().strip(), "")


# ---------------------------------------------------------------- C, C++, CUDA, protocol buffers

CXX = re.compile(
    r"""(?P<newline>\n)
      | (?P<blank>[ \t\r\f\v]+ | \\[ \t]*\n)
      | (?P<comment>//(?:\\[ \t]*\n|[^\n])* | /\*.*?\*/)
      | (?P<prefix>(?:u8|[uUL])(?=R?"))
      | R"(?P<tag>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=tag)"
      | "(?P<string>(?:\\.|[^"\\\n])*)"
      | (?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
      | (?P<number>\.?[0-9](?:[eEpP][+-]|'(?=\w)|[\w.])*)
      | (?P<word>[A-Za-z_$]\w*)
      | (?P<sign>\.\.\.|->\*|<<=|>>=|<=>|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|\.\*|\#\#
               |[-+*/%&|^]=|.)
    """, re.VERBOSE | re.DOTALL)

HAS_CODE_IN_STRINGS = ("asm", "__asm", "__asm__", "__attribute__", "_Pragma", "pragma")
BEFORE_PARENTHESIS = ("volatile", "__volatile__", "goto", "inline")
CUT_ESCAPE = re.compile(r"(?:\\x[0-9a-fA-F]+|\\[0-7]{1,2})\Z")


class CxxContext:
    """The context of the next token: the state from earlier tokens that decides its meaning."""

    def __init__(self):
        self.begins_line = True
        self.directive = None    # the words of the directive so far; None outside directives
        self.code_strings = False  # after a word of HAS_CODE_IN_STRINGS, before its "("
        self.depth = 0           # levels of parentheses since that "("
        self.previous = ""

    def has_code_in_string(self):
        in_directive = self.directive is not None and self.directive[:1] != ["define"]
        return self.depth > 0 or self.previous == "extern" or in_directive

    def add(self, text):
        if self.directive is not None:
            self.directive.append(text)
        elif text == "#" and self.begins_line:
            self.directive = []
        self.begins_line = False
        if text == "(" and (self.code_strings or self.depth > 0):
            self.depth += 1
        elif text == ")" and self.depth > 0:
            self.depth -= 1
        if text not in BEFORE_PARENTHESIS:
            self.code_strings = text in HAS_CODE_IN_STRINGS
        self.previous = text


def joined(left, right):
    """Joins the words of two adjacent string literals, so that an escape at the end of the first
    does not continue in the second."""
    grows = CUT_ESCAPE.search(left) and re.match(r"[0-9a-fA-F]", right)
    return left + ('" "' if grows else "") + right


def cxx_string(match):
    """Returns the text between the quotes. For a raw string, returns the text of the equal ordinary
    string."""
    if match.group("raw") is None:
        return re.sub(r"\\[ \t]*\n", "", match.group("string"))
    return match.group("raw").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def cxx_tokens(source):
    context = CxxContext()
    string = None  # the last token, if it is a string that the next one may continue
    for line, match in with_lines(CXX, source):
        if match.group("blank"):
            continue
        if match.group("comment"):
            yield from steering(line, match.group())
            continue
        if match.group("newline"):
            context.begins_line = True
            if context.directive is None:
                continue
            context.directive = None
            token = Token(line, "<end of directive>", "")
        elif match.group("raw") is not None or match.group("string") is not None:
            words = cxx_string(match)
            token = Token(line, STRING, words)
            if context.has_code_in_string():
                token = Token(line, f'"{words}"', "")
            context.add(STRING)
            if string is not None and string.text == token.text == STRING:
                token = Token(string.line, STRING, joined(string.words, words))
                string = None
        else:
            text = match.group()
            is_macro = context.directive == ["define"] and source.startswith("(", match.end())
            context.add(text)
            token = Token(line, text + ("(" if is_macro else ""), "")
        if string is not None:
            yield string
        string = token if token.text == STRING else None
        if string is None:
            yield token
    if string is not None:
        yield string


# ---------------------------------------------------------------- Python

def python_tokens(source):
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise Unreadable(str(error)) from error
    if source.startswith("#!"):
        yield Token(1, source.partition("\n")[0], "")
    for number, line in enumerate(source.splitlines(), 1):
        yield from steering(number, line.partition("#")[2])
    yield from python_node(tree, 1)


def python_node(node, line):
    """Yields the tokens of a node of the syntax tree. Its parent begins in `line`."""
    line = getattr(node, "lineno", line)
    if isinstance(node, list):
        yield Token(line, "[", "")
        for item in node:
            is_docstring = (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and
                            isinstance(item.value.value, str))
            if not is_docstring:
                yield from python_node(item, line)
        yield Token(line, "]", "")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield Token(line, STRING, node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        yield Token(line, 'f""', "".join(parts))
        for part in node.values:
            if not isinstance(part, ast.Constant):
                yield Token(line, ast.unparse(ast.JoinedStr(values=[part])), "")
    elif isinstance(node, ast.AST):
        yield Token(line, type(node).__name__ + "(", "")
        for field in node._fields:
            yield from python_node(getattr(node, field, None), line)
        yield Token(line, ")", "")
    else:
        yield Token(line, repr(node), "")


# ---------------------------------------------------------------- shell

SHELL = re.compile(
    r"""(?P<newline>\n)
      | (?P<blank>[ \t\r]+ | \\\n)
      | (?P<comment>\#[^\n]*)
      | (?P<heredoc><<-?[ \t]*(?P<quote>['"]?)(?P<mark>[A-Za-z_]\w*)(?P=quote))
      | (?P<operator><<<|;;|&&|\|\||[;|&()<>])
      | (?P<single>\$?'(?:(?<=\$')(?:\\.|[^'\\])*|(?<!\$')[^']*)')
      | (?P<double>")
      | (?P<expansion>\$[({]|`|\$[\w@*\#?$!-])
      | (?P<plain>\\. | [^\s"'\\$;|&()<>\#`]+ | .)
    """, re.VERBOSE | re.DOTALL)

CLOSING = {"(": ")", "{": "}", "`": "`", '"': '"'}


def shell_end(source, begin):
    """Returns the end of the construct that opens at `begin` with one of ( { ` "."""
    closer = CLOSING[source[begin]]
    position = begin + 1
    while position < len(source):
        character = source[position]
        if character == closer:
            return position + 1
        if character == "\\":
            position += 2
        elif character == "'" and closer in ")`":
            position = source.find("'", position + 1) + 1
            if position == 0:
                break
        elif character in '("`' or source.startswith("${", position - 1):
            # In double quotes, a parenthesis only opens a construct after $.
            opens = character != "(" or closer != '"' or source[position - 1] == "$"
            position = shell_end(source, position) if opens else position + 1
        else:
            position += 1
    raise Unreadable(f"{source[begin]} is never closed: {source[begin:begin + 40]!r}")


def expansion_end(source, begin):
    opens = begin + 1 if source[begin] == "$" else begin
    return shell_end(source, opens) if source[opens] in CLOSING else opens + 1


def split_expansions(text):
    """Returns the expansions and the words of the text inside double quotes."""
    code, words, position = "", "", 0
    for match in re.finditer(r"\\.|\$[({]|`|\$[A-Za-z_]\w*|\$[0-9@*#?$!-]", text, re.DOTALL):
        if match.start() < position or match.group().startswith("\\"):
            continue
        end = match.end()
        if match.group() in ("$(", "${", "`"):
            end = expansion_end(text, match.start())
        words += text[position:match.start()] + "$"
        code += text[match.start():end]
        position = end
    return code, words + text[position:]


def shell_word(source, begin):
    """Returns (end, text, words) of the word at `begin`."""
    text, words, position = "", "", begin
    while position < len(source):
        match = SHELL.match(source, position)
        if match.lastgroup in ("newline", "blank", "heredoc", "operator"):
            break
        end = match.end()
        if match.lastgroup == "single":
            text += "''"
            words += match.group()
        elif match.lastgroup == "double":
            end = shell_end(source, position)
            code, inside = split_expansions(source[position + 1:end - 1])
            text += f'"{code}"'
            words += inside
        elif match.lastgroup == "expansion":
            end = expansion_end(source, position)
            text += source[position:end]
        elif match.lastgroup == "comment":  # a # within a word
            end = position + 1
            text += "#"
        else:
            text += match.group()
        position = end
    return position, text, words


def shell_tokens(source):
    heredocs = []  # (mark, whether it expands) of here-documents whose text comes later
    position, previous = 0, "\n"
    while position < len(source):
        line = source.count("\n", 0, position) + 1
        match = SHELL.match(source, position)
        position, kind = match.end(), match.lastgroup
        if kind == "comment":
            yield from steering(line, match.group())
            if line == 1 and match.group().startswith("#!"):
                yield Token(line, match.group(), "")
        elif kind == "heredoc":
            heredocs.append((match.group("mark"), not match.group("quote")))
            yield Token(line, match.group(), "")
        elif kind == "operator":
            yield Token(line, match.group(), "")
        elif kind == "newline":
            if previous != "\n":
                yield Token(line, "\n", "")
            for mark, expands in heredocs:
                end = re.compile(rf"^\t*{mark}$", re.MULTILINE).search(source, position)
                if not end:
                    raise Unreadable(f"line {line}: no end of the here-document {mark}")
                body = source[position:end.start()]
                code, words = split_expansions(body) if expands else ("", body)
                yield Token(line + 1, f"<<{code}", words)
                position = end.end()
            heredocs = []
        elif kind != "blank":
            position, text, words = shell_word(source, match.start())
            yield Token(line, text, words)
        if kind not in ("comment", "blank"):
            previous = match.group() if kind == "newline" else ""


# ---------------------------------------------------------------- CMake

CMAKE = re.compile(
    r"""(?P<comment>\#\[(?P<hash>=*)\[.*?\](?P=hash)\] | \#[^\n]*)
      | (?P<blank>\s+)
      | (?P<bracket>\[(?P<equals>=*)\[.*?\](?P=equals)\])
      | (?P<parenthesis>[()])
      | (?P<argument>(?: "(?:\\.|[^"\\])*" | \\. | [^\s()\#"\\] )+)
      | (?P<other>.)
    """, re.VERBOSE | re.DOTALL)
CMAKE_REFERENCE = re.compile(r"\$(?:\w*\{[^{}]*\}|<[^<>]*>)|@\w+@")


def cmake_argument(argument):
    """Returns (text, words) of an argument. Parts of it may be quoted."""
    words = []

    def replace(match):
        words.append(CMAKE_REFERENCE.sub("$", match.group()[1:-1]))
        return '"' + "".join(CMAKE_REFERENCE.findall(match.group())) + '"'

    text = re.sub(r'"(?:\\.|[^"\\])*"', replace, argument, flags=re.DOTALL)
    return text, "".join(words)


def cmake_tokens(source):
    command, depth, sentence = "", 0, None
    for line, match in with_lines(CMAKE, source):
        if match.group("comment") or match.group("blank"):
            continue
        if match.group("argument") and depth == 1 and command == "message":
            text, words = cmake_argument(match.group())
            if text.startswith('"'):  # message joins its arguments
                sentence = Token(line, text, words) if sentence is None else Token(
                    sentence.line, sentence.text[:-1] + text[1:], sentence.words + words)
                continue
        if sentence is not None:
            yield sentence
            sentence = None
        if match.group("argument"):
            if depth == 0:
                command = match.group()
            yield Token(line, *cmake_argument(match.group()))
        elif match.group("bracket"):
            yield Token(line, "[[]]", match.group())
        elif match.group("parenthesis"):
            depth += 1 if match.group() == "(" else -1
            yield Token(line, match.group(), "")
        else:
            raise Unreadable(f"line {line}: {match.group()!r}")


# ---------------------------------------------------------------- make

def make_tokens(source):
    """Yields one token per logical line. In a recipe, # belongs to the shell, so a line has no
    comment."""
    in_define = False
    for line, match in with_lines(re.compile(r"(?:\\\n|[^\n])*\n?"), source):
        text = match.group().rstrip("\n")
        if text.startswith("define "):
            in_define = True
        if not in_define and not text.startswith("\t"):
            text, comment, _ = re.split(r"((?<!\\)#|\Z)", text, maxsplit=1)
            if comment and text.count("(") > text.count(")"):
                raise Unreadable(f"line {line}: a # in a call")
            text = " ".join(text.replace("\\\n", " ").split())
        if text.startswith("endef"):
            in_define = False
        if text.strip():
            yield Token(line, text, "")
