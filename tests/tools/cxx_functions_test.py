"""The function finder of the length check, tested on the forms of C++ definitions."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/check"))
import cxx_functions  # noqa: E402


class FunctionsTest(unittest.TestCase):
    def assert_finds(self, source, *expected):
        self.assertEqual(list(cxx_functions.functions(source)), list(expected))

    def test_free_functions_in_namespaces(self):
        self.assert_finds(
            "namespace a::b {\nnamespace {\n\nint F(int x) {\n  if (x) {\n  }\n}\n}\n}\n"
            'extern "C" {\nvoid G(void) {}\n}\nextern "C" void H() noexcept {\n}\n',
            ("F", 4, 4), ("G", 11, 1), ("H", 13, 2))

    def test_members(self):
        self.assert_finds(
            "class A final : public B {\n public:\n  explicit A(int x) : x_{x}, y_(x) {\n  }\n"
            "  A() noexcept : x_{} {}\n  ~A() override {\n}\n  int x() const { return x_; }\n"
            " private:\n  int x_ = 0;\n  int y_[2] = {1, 2};\n  std::vector<int> z_{1};\n};\n"
            "bool A::operator==(const A& o) const {\n  return true;\n}\n"
            "bool A::operator()(int x) {\n  return true;\n}\n",
            ("A", 3, 2), ("A", 5, 1), ("~A", 6, 2), ("x", 8, 1), ("A::operator==", 14, 3),
            ("A::operator()", 17, 3))

    def test_templates_and_return_types(self):
        self.assert_finds(
            "template <class T, int N = f(3)>\nauto F(T x) -> std::array<T, N> {\n  return {};\n}\n"
            "static struct Pair G(int x) {\n  return {x, x};\n}\n"
            "[[nodiscard]] int H() {\n}\n",
            ("F", 2, 3), ("G", 5, 3), ("H", 8, 2))

    def test_tests_and_lambdas(self):
        self.assert_finds(
            "TEST(Suite, Name) {\n  auto f = [](int x) {\n    return x;\n  };\n}\n"
            "const auto kTable = [] {\n  return 1;\n}();\n",
            ("TEST", 1, 5))

    def test_comments_literals_and_macros_do_not_count(self):
        self.assert_finds(
            '#define F(x) \\\n  void x() { \\\n  }\n// void G() {\n/* { */\n'
            'const char* kText = R"x(void H() {)x";\nconst char kOpen = \'{\';\n'
            'const int kLarge = 1\'000\'000;\nvoid I() {\n  Print("}");\n}\n',
            ("I", 9, 3))

    def test_data_is_no_function(self):
        self.assert_finds(
            "constexpr int kTable[] = {Size(1), 2};\nstruct Point {\n  int x = F(1);\n};\n"
            "enum class Kind { kA, kB };\nconst std::map<int, int> kMap{{1, 2}};\n")


if __name__ == "__main__":
    unittest.main()
