"""Each check passes on a small good tree; on a bad tree it fails and names the place."""

import json
import os
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

from scratch_tree import ScratchTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CHECKS = REPOSITORY / "tools/check"
sys.path.insert(0, str(CHECKS))
import layering  # noqa: E402


class CheckTest(ScratchTree):
    def copy(self, path):
        self.write(path, (REPOSITORY / path).read_text(encoding="utf-8"))

    def run_check(self, name, *arguments):
        result = subprocess.run(
            [sys.executable, "-B", CHECKS / f"{name}.py", "--root", self.root, *arguments],
            capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def assert_passes(self, name, *arguments):
        status, output = self.run_check(name, *arguments)
        self.assertEqual(status, 0, output)

    def assert_fails(self, name, expected, *arguments):
        status, output = self.run_check(name, *arguments)
        self.assertEqual(status, 1, output)
        self.assertIn(expected, output)


class FormatTest(CheckTest):
    def test_unformatted_file_is_named(self):
        self.copy(".clang-format")
        self.write("service/good.cc", "int F() { return 1; }\n")
        self.assert_passes("format")
        self.write("service/bad.cc", "int  F( )\n{ return 1; }\n")
        self.assert_fails("format", "service/bad.cc:1")


class ShellScriptsTest(CheckTest):
    def test_problem_is_named(self):
        self.write("tools/good.sh", '#!/bin/sh\necho "$1"\n')
        self.assert_passes("shell_scripts")
        self.write("tools/bad.sh", "#!/bin/sh\necho $1\n")
        self.assert_fails("shell_scripts", "tools/bad.sh:2:6")
        self.write("tools/bad.sh", "#!/bin/sh\n")
        self.write(".ci/run", "#!/bin/sh\ncd /x\n")
        self.assert_fails("shell_scripts", ".ci/run:2:1")


class LayeringTest(CheckTest):
    def setUp(self):
        super().setUp()
        for path in ("kernels/core/dtype.h", "kernels/ops/gemm/pack.h",
                     "kernels/cpu/attention/head_rows.h", "kernels/cpu/gemm/panel.h",
                     "backends/api/backend.h", "backends/dense/dense.h",
                     "service/config/config.h", "service/engine/engine.h",
                     "service/engine/policy/step_plan.h", "service/sessions/session.h",
                     "tests/kernels/data.h"):
            self.write(path, "")

    def assert_refused(self, path, include, reason):
        self.write(path, f"// A comment.\n#include {include}\n")
        self.assert_fails("layering", f"{path}:2: {include[1:-1]}: {reason}")
        (self.root / path).unlink()

    def test_downward_includes_pass(self):
        self.write("kernels/ops/sampling/sample.h",
                   '#include "kernels/core/dtype.h"\n#include <vector>\n')
        self.write("kernels/cpu/attention/a.cc", '#include "kernels/cpu/gemm/panel.h"\n')
        self.write("backends/spec/spec.h", '#include "kernels/ops/gemm/pack.h"\n')
        self.write("service/engine/a.cc", '#include "service/sessions/session.h"\n'
                   '#include "service/engine/policy/step_plan.h"\n#include "absl/status/status.h"\n')
        self.write("tests/kernels/attention/a_test.cc", '#include "tests/kernels/data.h"\n')
        self.assert_passes("layering")

    def test_upward_and_sideways_includes_fail(self):
        for path, include in (
                ("kernels/core/a.h", '"kernels/ops/gemm/pack.h"'),
                ("kernels/ops/a.h", '"backends/api/backend.h"'),
                ("kernels/cpu/gemm/a.h", '"kernels/cpu/attention/head_rows.h"'),
                ("backends/hwfa2/a.cc", '"backends/dense/dense.h"'),
                ("service/config/a.cc", '"service/engine/engine.h"'),
                ("service/engine/policy/a.cc", '"service/engine/engine.h"'),
                ("service/engine/policy/a.cc", '"service/sessions/session.h"'),
                ("service/sessions/a.cc", '"service/engine/engine.h"'),
                ("service/sessions/a.cc", '"kernels/ops/gemm/pack.h"'),
                ("service/sessions/a.cc", '"tests/kernels/data.h"'),
                ("tests/kernels/gemm/a.cc", '"service/sessions/session.h"')):
            room = path.rpartition("/")[0] if not path.startswith("tests") else "tests/kernels"
            self.assert_refused(path, include, f"{room} may not include")

    def test_guarded_third_party_headers_fail(self):
        for path, include, library in (
                ("kernels/ops/a.h", "<cuda_runtime.h>", "cuda"),
                ("kernels/core/a.h", '"absl/status/status.h"', "absl"),
                ("backends/dense/a.cc", "<prometheus/counter.h>", "prometheus"),
                ("service/sessions/a.cc", "<grpcpp/grpcpp.h>", "grpc"),
                ("service/engine/a.cc", '"longstream/v1/service.pb.h"', "protobuf")):
            self.write(path, f"#include {include}\n")
            self.assert_fails("layering", f"may not include {library} headers")
            (self.root / path).unlink()

    def test_include_relative_to_the_file_fails(self):
        self.assert_refused("kernels/ops/gemm/a.h", '"pack.h"',
                            "include project headers by their path")

    def test_folder_without_a_row_fails(self):
        self.write("service/helpers/a.h", "")
        self.assert_fails("layering", "service/helpers/a.h: no row")
        (self.root / "service/helpers/a.h").unlink()
        self.write("service/engine/more/a.h", "")
        self.assert_fails("layering", "service/engine/more/a.h: no row")

    def test_a_cycle_in_the_table_is_found(self):
        with unittest.mock.patch.dict(layering.ROOMS, {"kernels/core": "service/engine"}):
            self.assertIn("the table of rooms has a cycle through kernels/core",
                          layering.cycles())
        self.assertEqual(layering.cycles(), [])


class OpNamesTest(CheckTest):
    DECLARATION = "using ScaleFunction = void (*)(Stream& stream, const ScaleArgs& args);\n"

    def setUp(self):
        super().setUp()
        self.write("kernels/ops/elementwise/scale.h", self.DECLARATION)
        self.write("kernels/ops/elementwise/size.h", "struct Size {};\n")
        for path in ("kernels/reference/elementwise/scale.cc",
                     "kernels/cpu/elementwise/scale.cc", "kernels/cpu/elementwise/shared.cc",
                     "kernels/cuda/elementwise/scale.cu", "kernels/cuda/elementwise/shared.cu",
                     "kernels/cuda/elementwise/shared.cuh",
                     "tests/kernels/elementwise/scale_test.cc", "tests/kernels/core/a_test.cc"):
            self.write(path, "")

    def test_complete_op_passes(self):
        self.assert_passes("op_names")

    def test_missing_counterpart_fails(self):
        for path in ("kernels/reference/elementwise/scale.cc", "kernels/cpu/elementwise/scale.cc",
                     "tests/kernels/elementwise/scale_test.cc"):
            (self.root / path).unlink()
            self.assert_fails("op_names", f"kernels/ops/elementwise/scale.h: {path} is missing")
            self.write(path, "")

    def test_counterpart_in_another_room_fails(self):
        self.write("kernels/cpu/gemm/scale.cc", "")
        (self.root / "kernels/cpu/elementwise/scale.cc").unlink()
        self.assert_fails("op_names", "kernels/cpu/elementwise/scale.cc is missing")

    def test_source_of_no_op_fails(self):
        for path in ("kernels/reference/elementwise/softmax.cc",
                     "kernels/cuda/elementwise/softmax.cu",
                     "tests/kernels/elementwise/softmax_test.cc"):
            self.write(path, "")
            self.assert_fails("op_names",
                              f"{path}: kernels/ops/elementwise/softmax.h declares no op")
            (self.root / path).unlink()

    def test_further_test_of_an_op_passes(self):
        self.write("tests/kernels/elementwise/scale_rows_test.cc", "")
        self.assert_passes("op_names")

    def test_op_outside_the_rooms_fails(self):
        self.write("kernels/ops/softmax.h", self.DECLARATION)
        self.assert_fails("op_names", "kernels/ops/softmax.h: declares an op outside the rooms")


class LengthsTest(CheckTest):
    def test_limits(self):
        body = "  F();\n" * 78
        self.write("kernels/ok.cc", f"void G() {{\n{body}}}\n" + "\n" * 420)
        self.write("a/b/c/d/ok.cc", "")
        for number in range(25):
            self.write(f"a/many/{number}.cc", "")
        self.write("a/many/data.json", "")
        self.assert_passes("lengths")

        self.write("a/many/25.py", "")
        self.assert_fails("lengths", "a/many: 26 source files, over 25")
        (self.root / "a/many/25.py").unlink()

        self.write("kernels/long.cc", "\n" * 501)
        self.assert_fails("lengths", "kernels/long.cc: 501 lines, over 500")
        self.write("kernels/long.cc", f"\nvoid G() {{\n  F();\n{body}}}\n")
        self.assert_fails("lengths", "kernels/long.cc:2: G has 81 lines, over 80")
        self.write("kernels/long.cc", "")
        self.write("kernels/long.py", "def g():\n" + "    f()\n" * 80)
        self.assert_fails("lengths", "kernels/long.py:1: g has 81 lines, over 80")
        self.write("kernels/long.py", "")
        self.write("a/b/c/d/e/deep.cc", "")
        self.assert_fails("lengths", "a/b/c/d/e: more than 3 folders deep")

    def test_exceptions_need_a_reason_and_a_use(self):
        self.write("kernels/long.cc", "\n" * 501)
        self.write("tools/check/length_exceptions.txt", "kernels/long.cc  It is a table.\n")
        self.assert_passes("lengths")
        self.write("tools/check/length_exceptions.txt", "kernels/long.cc\n")
        self.assert_fails("lengths", "kernels/long.cc has no reason")
        self.write("kernels/long.cc", "")
        self.assert_fails("lengths", "kernels/long.cc is under all limits")


# Pages of a small tree. The paths are split, because prose.py reads this file too and would look
# for them in the repository.
PAGE = "docs" "/page.md"
OTHER = "docs" "/other.md"


class ProseTest(CheckTest):
    def setUp(self):
        super().setUp()
        self.write("service/config/config.h", "")
        self.write(OTHER, "# Two words\n\nText.\n\n```\n# no heading\n```\n")

    def assert_refused(self, text, problem):
        self.write(PAGE, text)
        self.assert_fails("prose", f"{PAGE}:{problem}")
        (self.root / PAGE).unlink()

    def test_long_lines_of_prose_fail_and_tables_code_and_addresses_pass(self):
        long = "word " * 40
        self.write(PAGE, f"{'ö' * 70} {'ö' * 69}\n\n| {long} |\n\n    {long}\n\n"
                   f"```\n{long}\n```\n{'x' * 200}\n")
        self.assert_passes("prose")
        self.assert_refused(f"\n{long}\n", "2: 200 characters, over 140")
        self.assert_refused(f"- item\n    {long}\n", "2: 204 characters")

    def test_links_lead_to_files_and_headings(self):
        self.write(PAGE, "[a](other.md#two-words) [b](#here) [c](../service)\n# Here\n"
                   "[d](https://example.org/x#y)\n")
        self.assert_passes("prose")
        self.assert_refused("[a](none.md)\n", "1: none.md leads to no file")
        self.assert_refused("[a](other.md#three)\n", "1: other.md#three leads to no heading")
        self.assert_refused("[a](other.md#no-heading)\n", "1: other.md#no-heading leads to no")

    def test_paths_and_names_of_files_are_those_of_the_tree(self):
        self.write(PAGE,
                   "`service/config/`, `service/*/config.h`, `config.h`, (service/config).\n"
                   "service/<name>.h, `conf*.h`, http://x/service/none, `acme.cc`\n")
        self.assert_passes("prose")
        self.assert_refused("`service/none.h`\n", "1: service/none.h is not in this tree")
        self.assert_refused("\n```\nservice/config/none\n```\n", "3: service/config/none is not")
        self.assert_refused("`none.h`\n", "1: no file is named none.h")

    def test_pages_that_sources_mention_exist(self):
        self.write("service/a.cc", f"// See {OTHER}.\n")
        self.assert_passes("prose")
        self.write("service/a.cc", "\n// See docs" "/none.md.\n")
        self.assert_fails("prose", "none.md does not exist")


class CompiledCheckTest(CheckTest):
    """Checks that read compile_commands.json."""

    def write_database(self, sources, flags, folder=""):
        build = self.root / "build/release"
        build.mkdir(parents=True, exist_ok=True)
        database = []
        for source in sources:
            output = folder + source.replace("/", "_") + ".o"
            command = f"g++ -std=c++20 {flags} -I{self.root} -c {self.root / source} -o {output}"
            database.append({"directory": str(build), "file": str(self.root / source),
                             "command": command})
        self.write("build/release/compile_commands.json", json.dumps(database))
        return database


class WeakSymbolsTest(CompiledCheckTest):
    HEADER = "inline __attribute__((noinline)) int Shared(int x) { return x + 1; }\n"

    def compile(self, flags):
        for entry in self.write_database(["kernels/cpu/norm_avx2.cc"], flags):
            subprocess.run(entry["command"].split(), cwd=entry["directory"], check=True)

    def test_inline_function_of_an_instruction_set_fails(self):
        self.write("kernels/cpu/norm_avx2.cc", self.HEADER + "int F(int x) { return Shared(x); }\n")
        self.compile("-O2 -mavx2")
        self.assert_fails("weak_symbols", "norm_avx2.cc.o: weak symbol Shared(int)")

    def test_internal_linkage_passes(self):
        self.write("kernels/cpu/norm_avx2.cc",
                   "namespace {\n" + self.HEADER + "}\nint F(int x) { return Shared(x); }\n")
        self.compile("-O2 -mavx2")
        self.assert_passes("weak_symbols")

    def test_object_of_tests_alone_is_not_checked(self):
        self.write("kernels/cuda/norm.cu", "")
        self.write_database(["kernels/cuda/norm.cu"], "-O2 -mavx2", folder="tests/simt/")
        self.assert_fails("weak_symbols", "no object of kernels has")

    def test_nothing_to_check_fails(self):
        self.write("kernels/cpu/norm_avx2.cc", "")
        self.compile("-O2")
        self.assert_fails("weak_symbols", "no object of kernels has")


class PythonPackageTest(CheckTest):
    def test_style_and_types_fail_before_the_package_is_installed(self):
        for path in ("CMakeLists.txt", "client/python/pyproject.toml",
                     "client/python/generate_stubs.py", "client/python/error_details.proto",
                     "proto/longstream/v1/longstream.proto"):
            self.copy(path)
        self.write("client/python/longstream/__init__.py",
                   '"""A package."""\n\nimport os\n\nCOUNT: int = "one"\n')
        self.assert_fails("python_package", "longstream/__init__.py:3:8: F401")
        self.assert_fails("python_package", "longstream/__init__.py:5: error: Incompatible types")


class TidyTest(CompiledCheckTest):
    def setUp(self):
        super().setUp()
        self.copy(".clang-tidy")
        # The cache of clean sources is empty and belongs to this tree.
        cache = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache"))
        cache.start()
        self.addCleanup(cache.stop)

    def test_bug_fails(self):
        self.write("service/a.cc", "int F(int x) { return x; }\n")
        self.write_database(["service/a.cc"], "-Wno-unknown-to-clang")
        self.assert_passes("tidy")
        self.write("service/a.cc", "int F(int x) { if (x); return x; }\n")
        self.assert_fails("tidy", "service/a.cc:1:")

    def test_what_passed_is_remembered_until_something_of_it_changes(self):
        self.write("service/a.h", "inline int G() { return 1; }\n")
        self.write("service/a.cc", '#include "service/a.h"\nint F() { return G(); }\n')
        self.write_database(["service/a.cc"], "")
        self.assert_passes("tidy")
        remembered, = (self.root / "cache/longstream-tidy").iterdir()
        written = remembered.stat().st_mtime_ns
        self.assert_passes("tidy")
        self.assertEqual(remembered.stat().st_mtime_ns, written)  # the cache was not written again
        # After each of these changes clang-tidy must run again: a header, a comment that hides a
        # finding, an include without effect, the list of checks.
        self.write("service/a.h", "inline int G() { if (true); return 1; }\n")
        self.assert_fails("tidy", "suspicious-semicolon")
        self.write("service/a.h", "inline int G() { if (true); return 1; }  // NOLINT\n")
        self.assert_passes("tidy")
        self.write("service/a.h", "inline int G() { if (true); return 1; }  // no lint\n")
        self.assert_fails("tidy", "suspicious-semicolon")
        self.write("service/a.h", "#pragma once\n\ninline int G() { return 1; }\n")
        self.write("service/a.cc", '#include "service/a.h"\n\nint F() { return G() + 77; }\n')
        self.assert_passes("tidy")
        self.write("service/a.cc", '#include "service/a.h"\n#include "service/a.h"\n'
                   "int F() { return G() + 77; }\n")
        self.assert_fails("tidy", "duplicate")
        self.write("service/a.cc", '#include "service/a.h"\n\nint F() { return G() + 77; }\n')
        self.write(".clang-tidy", "Checks: '-*,readability-magic-numbers'\nWarningsAsErrors: '*'\n")
        self.assert_fails("tidy", "magic")

    def test_lock_annotations_are_checked(self):
        self.write("service/a.cc", """
            struct __attribute__((capability("mutex"))) Mutex {};
            struct Counter {
              Mutex mutex;
              int count __attribute__((guarded_by(mutex)));
            };
            int Read(const Counter& counter) { return counter.count; }
            """)
        self.write_database(["service/a.cc"], "")
        self.assert_fails("tidy", "clang-diagnostic-thread-safety-analysis")

    def test_sources_of_a_batch_are_read_one_by_one(self):
        batch = "build/release/service/Unity/unity_0_cxx.cxx"
        for name in ("a", "b"):
            self.write(f"service/{name}.cc", f"namespace {{ int F(int x) {{ return x; }} }}\n"
                       f"int Call{name}() {{ return F(1); }}\n")
        self.write(batch, "".join(f'#include "{self.root}/service/{name}.cc"\n\n' for name in "ab"))
        self.write_database([batch], "")
        self.assert_passes("tidy")
        self.write("service/b.cc", "int F(int x) { if (x); return x; }\n")
        self.assert_fails("tidy", "service/b.cc:1:")

    def test_nothing_to_check_fails(self):
        self.write_database([], "")
        self.assert_fails("tidy", "no source of the tree")
        self.assert_fails("tidy", "no source of the tree", "--changed")

    def test_says_which_sources_it_reads_and_why(self):
        self.write("service/a.cc", "int F(int x) { if (x); return x; }\n")
        self.write("service/b.cc", "int G(int x) { if (x); return x; }\n")
        self.write_database(["service/a.cc", "service/b.cc"], "")
        self.assert_fails("tidy", "tidy reads all 2 sources: no commit is", "--changed")
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "all")
        status, output = self.run_check("tidy", "--base", "HEAD")
        self.assertEqual(status, 0, output)
        self.assertIn("tidy reads 0 of 2 sources changed since", output)
        self.write("service/b.cc", "int G(int x) { if (x > 1); return x; }\n")
        self.assert_fails("tidy", "tidy reads 1 of 2 sources changed since", "--base", "HEAD")
        self.assert_fails("tidy", "service/b.cc:1:", "--base", "HEAD")
        self.assert_fails("tidy", "unknown revision", "--base", "missing")


if __name__ == "__main__":
    unittest.main()
