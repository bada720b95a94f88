"""Changes of code that only_words.py must find, and changes of words that it must accept."""

import pathlib
import subprocess
import sys
import unittest

from scratch_tree import ScratchTree

CHECKS = pathlib.Path(__file__).resolve().parents[2] / "tools/check"
sys.path.insert(0, str(CHECKS))
import word_tokens  # noqa: E402

# (file, before, after): the two programs are equal.
EQUAL = (
    ("a.cc", "int x;  // Old.\nint y;\n", "// New,\n// longer.\nint x; /* y */\nint y;\n"),
    ("a.cc", "F(a,\n  b);\n", "F(a, b);\n"),
    ("a.cc", 'P("ab"\n  "cd");\n', 'P("abc" /* and */ "d");\n'),
    ("a.cc", 'P("\\x4" "1");\n', 'P("\\x4"  // not \\x41\n  "1");\n'),
    ("a.cc", 'P(R"(a "b"\n)");\n', 'P("a \\"b\\"\\n");\n'),
    ("a.cc", "c = '\"';  // \"\nd = '\\'';\n", "c = '\"';\nd = '\\''; // '\n"),
    ("a.cc", "n = 1'000;  // '\n", "n = 1'000;\n"),
    ("a.cc", '#define F(x) \\\n  "a" x\n', '#define F(x) "a" /* b */ x\n'),
    ("a.proto", "// Old.\nmessage A {}  // b\n", "message A {}\n"),
    ("a.py", '"""Old."""\nx = (1 +  # why\n     2)\n', '"""New.\n"""\n# Why.\nx = 1 + 2\n'),
    ("a.py", 'x = "a" "b"\n', "x = 'ab'  # Joined.\n"),
    ("a.sh", "# Old.\nf \"$x\"  a#b\n\n\ng\n", "f \"$x\" \\\n  a#b  # New.\ng\n"),
    ("a.cmake", "# Old\nf(a\n  \"b\")\n", "f(a \"b\") #[[ New ]]\n"),
    ("a.cmake", 'message(FATAL_ERROR "a " "b")\n', 'message(FATAL_ERROR "a "  # why\n "b")\n'),
    ("Makefile", "a: b  ## Old.\n\tc  # d\n", "# New.\na: b  ## Newer.\n\tc  # d\n"),
)

# (file, before, after): the programs differ in more than words.
DIFFERENT = (
    ("a.cc", "if (a < b) {}\n", "if (a <= b) {}\n"),
    ("a.cc", "x = a + +b;\n", "x = a++ b;\n"),
    ("a.cc", "x = 1.0f;\n", "x = 1.5f;\n"),
    ("a.cc", "x = 1'000;\n", "x = 1'001;\n"),
    ("a.cc", "x = 1;  // Why.\ny = 2;\n", "x = 1;  // Why \\\ny = 2;\n"),
    ("a.cc", "x = 1;  // Why.\ny = 2;\n", "x = 1;  // Why \\ \ny = 2;\n"),
    ("a.cc", "x = 1; /* a */ y = 2; /* b */\n", "x = 1; /* a y = 2; b */\n"),
    ("a.cc", 'x = "/*"; y = 1; z = "*/";\n', 'x = "/*"; z = "*/";\n'),
    ("a.cc", "c = '\"'; f(1); d = '\"';\n", "c = '\"'; f(2); d = '\"';\n"),
    ("a.cc", "c = '\"';\n", "c = '\\'';\n"),
    ("a.cc", 'P(R"(a)", 1);  // )"\n', 'P(R"(a)", 2);  // )"\n'),
    ("a.cc", 'P(R"x(a)", 1)x");\n', 'P(R"x(a)x", 1);\n'),
    ("a.cc", 'P("a", "b");\n', 'P("a" "b");\n'),
    ("a.cc", 'P(L"a");\n', 'P("a");\n'),
    ("a.cc", 'P("a"_json);\n', 'P("a");\n'),
    ("a.cc", '#include "a.h"\n', '#include "b.h"\n'),
    ("a.cc", "#include <a>\n#include <b>\n", "#include <b>\n#include <a>\n"),
    ("a.cc", "#define A (x)\n", "#define A(x)\n"),
    ("a.cc", "#define A 1\nx;\n", "#define A 1 x;\n"),
    ("a.cc", 'extern "C" int f();\n', 'extern "C++" int f();\n'),
    ("a.cu", 'asm volatile("add %0;" : "=r"(x));\n', 'asm volatile("sub %0;" : "=r"(x));\n'),
    ("a.cc", "x;  // NOLINT(a)\n", "x;\n"),
    ("a.proto", "int32 a = 1;  // b\n", "int32 a = 2;  // b\n"),
    ("a.py", "if x:\n    f()\n    g()\n", "if x:\n    f()\ng()\n"),
    ("a.py", 'x = f"{a} b"\n', 'x = f"{c} b"\n'),
    ("a.py", 'x = f"{a:.1f} b"\n', 'x = f"{a:.2f} b"\n'),
    ("a.py", "f(1)\n", "# f(1)\n"),
    ("a.py", "import a  # noqa: E402\n", "import a\n"),
    ("a.sh", "#!/bin/bash\nf\n", "#!/bin/sh\nf\n"),
    ("a.sh", 'f "$x"\n', 'f "$y"\n'),
    ("a.sh", 'f "a$(g "b")"\n', 'f "a$(h "b")"\n'),
    ("a.sh", "f a #b\n", "f a#b\n"),
    ("a.sh", "f <<X\n$a # b\nX\ng\n", "f <<X\n$b # b\nX\ng\n"),
    ("a.sh", "f  # a\ng\n", "f  # a g\n"),
    ("a.sh", "f ${x#a} b\n", "f ${x#b} b\n"),
    ("CMakeLists.txt", "f(a) # (b)\n", "f(b) # (b)\n"),
    ("CMakeLists.txt", 'f("a" "b")\n', 'f("a b")\n'),
    ("CMakeLists.txt", 'f("${a} b")\n', 'f("${c} b")\n'),
    ("CMakeLists.txt", 'f("a")\ng(b)\n', 'f("a)\ng(b")\n'),
    ("Makefile", "a: b  ## c\n", "a: c  ## c\n"),
    ("Makefile", "a:\n\tb # c\n", "a:\n\tb\n"),
    ("Makefile", "# a\nb = c\n", "# a \\\nb = c\n"),
)

# (file, before, after): the programs differ only in the texts of their strings.
DIFFERENT_STRINGS = (
    ("a.cc", 'P("old " "a");\n', 'P("new");\n'),
    ("a.cc", 'P(R"(old // a)");\n', 'P(R"(new // a)");\n'),
    ("a.cc", 'P(R"x(a)", 1)x");\n', 'P(R"x(b)x");\n'),
    ("a.cc", '#define P F("old")\n', '#define P F("new")\n'),
    ("a.cc", "P('\"', \"old\");\n", "P('\"', \"new\");\n"),
    ("a.py", 'f("old", f"old {x}")\n', 'f("new", f"{x} is new")\n'),
    ("a.sh", "f 'old' \"old $x\"\n", "f 'new' \"$x is new\"\n"),
    ("a.sh", "f <<X\nold $a\nX\n", "f <<X\nnew $a\nX\n"),
    ("a.cmake", 'message(STATUS "old " "${a}")\n', 'message(STATUS "${a} is " "new")\n'),
)


def text_only(tokens):
    return [token.text for token in tokens]


def without_lines(tokens):
    return [token[1:] for token in tokens]


class WordTokensTest(unittest.TestCase):
    def test_only_words_differ(self):
        for path, before, after in EQUAL:
            with self.subTest(path=path, before=before, after=after):
                self.assertEqual(without_lines(word_tokens.tokens_of(path, before)),
                                 without_lines(word_tokens.tokens_of(path, after)))

    def test_code_differs(self):
        for path, before, after in DIFFERENT:
            for old, new in ((before, after), (after, before)):
                with self.subTest(path=path, before=old, after=new):
                    try:
                        self.assertNotEqual(text_only(word_tokens.tokens_of(path, old)),
                                            text_only(word_tokens.tokens_of(path, new)))
                    except word_tokens.Unreadable:
                        pass  # counts as a difference

    def test_strings_differ(self):
        for path, before, after in DIFFERENT_STRINGS:
            with self.subTest(path=path, before=before, after=after):
                old = word_tokens.tokens_of(path, before)
                new = word_tokens.tokens_of(path, after)
                self.assertEqual(text_only(old), text_only(new))
                self.assertNotEqual(without_lines(old), without_lines(new))

    def test_lines_are_those_of_the_source(self):
        tokens = word_tokens.tokens_of("a.cc", '// A.\nint x; /* b\n */ "c"\n  "d";\n')
        self.assertEqual([token.line for token in tokens], [2, 2, 2, 3, 4])

    def test_other_languages_are_not_read(self):
        self.assertIsNone(word_tokens.tokens_of("a.json", "{}"))


class OnlyWordsTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.git("init", "-q")
        self.write("a.cc", "// Old.\nint x = 1;\n" + "int y;\n" * 20)
        self.write("a.md", "Old.\n")
        self.write("a.json", "{}\n")
        self.commit()

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "A commit.")

    def assert_check(self, status, expected, *arguments):
        result = subprocess.run(
            [sys.executable, "-B", CHECKS / "only_words.py", "--root", self.root, *arguments],
            capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertIn(expected, result.stdout)

    def test_comments_and_documents_may_differ(self):
        self.write("a.cc", "// New.\nint x = 1;  // One.\n" + "int y;\n" * 20)
        self.write("a.md", "New.\n")
        self.write("b.md", "Another.\n")
        self.assert_check(0, "only_words: ok", "HEAD")
        self.commit()
        self.assert_check(0, "only_words: ok", "HEAD~", "HEAD")

    def test_the_place_of_a_difference_is_named(self):
        self.write("a.cc", "// Longer,\n// much.\nint x = 2;\n" + "int y;\n" * 20)
        self.assert_check(1, "a.cc:3: before: 1\n    after: 2", "HEAD")

    def test_renames_are_followed(self):
        self.git("mv", "a.cc", "b.cc")
        self.write("b.cc", "// New.\nint x = 1;\n" + "int y;\n" * 20)
        self.assert_check(0, "only_words: ok", "HEAD")
        self.write("b.cc", "// New.\nint x = 2;\n" + "int y;\n" * 20)
        self.assert_check(1, "b.cc:2: before: 1\n    after: 2", "HEAD")

    def test_other_files_may_not_change(self):
        self.write("a.json", "[]\n")
        self.assert_check(1, "a.json: changed", "HEAD")
        self.write("a.json", "{}\n")
        self.write("b.cc", "// Only a comment.\n")
        self.assert_check(1, "b.cc: added", "HEAD")
        (self.root / "b.cc").unlink()
        (self.root / "a.cc").chmod(0o755)
        self.assert_check(1, "a.cc: mode 100644 -> 100755", "HEAD")
        (self.root / "a.cc").unlink()
        self.assert_check(1, "a.cc: deleted", "HEAD")

    def test_strings_may_differ_where_asked_and_are_printed(self):
        self.write("b.cc", 'P("old");\n')
        self.commit()
        self.write("b.cc", 'P("new");\n')
        self.assert_check(1, "b.cc:1: before", "HEAD")
        self.assert_check(0, 'b.cc:1: "old"\n    now: "new"', "HEAD", "--strings")
        self.write("b.cc", 'Q("new");\n')
        self.assert_check(1, "b.cc:1: before: P\n    after: Q", "HEAD", "--strings")


if __name__ == "__main__":
    unittest.main()
