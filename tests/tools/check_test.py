"""Each check passes on a small good tree and fails, naming the place, on a bad one."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CHECKS = REPOSITORY / "tools/check"
sys.path.insert(0, str(CHECKS))
import op_names  # noqa: E402


class CheckTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

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


class LayeringTest(CheckTest):
    def setUp(self):
        super().setUp()
        for path in ("kernels/core/dtype.h", "kernels/ops/norm.h", "backends/api/backend.h",
                     "backends/dense/plan.h", "service/config/config.h",
                     "service/scheduler/engine.h", "service/session/session.h",
                     "tests/kernels/data.h"):
            self.write(path, "")

    def assert_refused(self, path, include, reason):
        self.write(path, f"// A comment.\n#include {include}\n")
        self.assert_fails("layering", f"{path}:2: {include[1:-1]}: {reason}")
        (self.root / path).unlink()

    def test_downward_includes_pass(self):
        self.write("kernels/ops/sample.h", '#include "kernels/core/dtype.h"\n#include <vector>\n')
        self.write("backends/hwfa2/plan.cc", '#include "kernels/ops/norm.h"\n')
        self.write("service/scheduler/a.cc",
                   '#include "service/session/session.h"\n#include "absl/status/status.h"\n')
        self.write("tests/kernels/a_test.cc", '#include "tests/kernels/data.h"\n')
        self.assert_passes("layering")

    def test_upward_and_sideways_includes_fail(self):
        for path, include in (
                ("kernels/core/a.h", '"kernels/ops/norm.h"'),
                ("kernels/ops/a.h", '"backends/api/backend.h"'),
                ("backends/hwfa2/a.cc", '"backends/dense/plan.h"'),
                ("service/config/a.cc", '"service/scheduler/engine.h"'),
                ("service/session/a.cc", '"service/scheduler/engine.h"'),
                ("service/session/a.cc", '"kernels/ops/norm.h"'),
                ("service/session/a.cc", '"tests/kernels/data.h"')):
            layer = "/".join(path.split("/")[:2])
            self.assert_refused(path, include, f"{layer} may not include")

    def test_guarded_third_party_headers_fail(self):
        for path, include, group in (
                ("kernels/ops/a.h", "<cuda_runtime.h>", "cuda"),
                ("kernels/core/a.h", '"absl/status/status.h"', "absl"),
                ("backends/dense/a.cc", "<prometheus/counter.h>", "prometheus"),
                ("service/session/a.cc", "<grpcpp/grpcpp.h>", "grpc"),
                ("service/scheduler/a.cc", '"longstream/v1/service.pb.h"', "protobuf")):
            self.write(path, f"#include {include}\n")
            self.assert_fails("layering", f"may not include {group} headers")
            (self.root / path).unlink()

    def test_include_relative_to_the_file_fails(self):
        self.assert_refused("kernels/ops/a.h", '"norm.h"', "include project headers by their path")

    def test_directory_without_a_row_fails(self):
        self.write("service/helpers/a.h", "")
        self.assert_fails("layering", "service/helpers/a.h: no row")


class OpNamesTest(CheckTest):
    DECLARATION = "using NormFunction = void (*)(Stream& stream, const NormArgs& args);\n"

    def setUp(self):
        super().setUp()
        # The exceptions that the check lists must exist, or it calls them stale.
        for path in ([f"kernels/ops/{name}.h" for name in op_names.NOT_AN_OP] +
                     list(op_names.NOT_OF_AN_OP)):
            self.write(path, "")
        self.write("kernels/ops/scale.h", self.DECLARATION)
        for path in ("kernels/reference/scale.cc", "kernels/cpu/scale.cc",
                     "kernels/cpu/scale_avx2.cc", "tests/kernels/scale_test.cc"):
            self.write(path, "")

    def test_complete_op_passes(self):
        self.assert_passes("op_names")

    def test_missing_counterpart_fails(self):
        for path in ("kernels/reference/scale.cc", "kernels/cpu/scale.cc",
                     "tests/kernels/scale_test.cc"):
            (self.root / path).unlink()
            self.assert_fails("op_names", f"kernels/ops/scale.h: {path} is missing")
            self.write(path, "")

    def test_source_without_a_header_fails(self):
        self.write("kernels/cpu/softmax.cc", "")
        self.assert_fails("op_names", "kernels/cpu/softmax.cc: no header of this name")

    def test_header_without_an_op_must_be_listed(self):
        self.write("kernels/ops/types.h", "struct Size {};\n")
        self.assert_fails("op_names", "kernels/ops/types.h: declares no op")

    def test_op_must_not_hide_among_the_exceptions(self):
        self.write("kernels/ops/norm.h", self.DECLARATION)
        self.assert_fails("op_names", "kernels/ops/norm.h: declares an op")


class LengthsTest(CheckTest):
    def test_limits(self):
        body = "  F();\n" * 78
        self.write("kernels/ok.cc", f"void G() {{\n{body}}}\n" + "\n" * 420)
        self.write("a/b/c/d/ok.cc", "")
        self.assert_passes("lengths")

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
        self.assert_fails("lengths", "kernels/long.cc exceeds nothing")


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


class TidyTest(CompiledCheckTest):
    def setUp(self):
        super().setUp()
        self.copy(".clang-tidy")
        # What was free of diagnostics before is remembered of this tree alone.
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
        self.assertEqual(remembered.stat().st_mtime_ns, written)  # not found once more
        # A header, a comment that hides a finding, an include that has no effect, the checks.
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

    def test_nothing_to_check_fails(self):
        self.write_database([], "")
        self.assert_fails("tidy", "no source of the tree")
        self.assert_fails("tidy", "no source of the tree", "--changed")

    def test_says_which_sources_it_reads_and_why(self):
        self.write("service/a.cc", "int F(int x) { if (x); return x; }\n")
        self.write("service/b.cc", "int G(int x) { if (x); return x; }\n")
        self.write_database(["service/a.cc", "service/b.cc"], "")
        self.assert_fails("tidy", "tidy reads all 2 sources: no commit is", "--changed")
        git = ["git", "-C", self.root, "-c", "user.name=n", "-c", "user.email=e"]
        for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "all"]):
            subprocess.run([*git, *command], check=True)
        status, output = self.run_check("tidy", "--base", "HEAD")
        self.assertEqual(status, 0, output)
        self.assertIn("tidy reads 0 of 2 sources changed since", output)
        self.write("service/b.cc", "int G(int x) { if (x > 1); return x; }\n")
        self.assert_fails("tidy", "tidy reads 1 of 2 sources changed since", "--base", "HEAD")
        self.assert_fails("tidy", "service/b.cc:1:", "--base", "HEAD")
        self.assert_fails("tidy", "unknown revision", "--base", "missing")


if __name__ == "__main__":
    unittest.main()
