"""The CI script stops at the first stage that fails, prints the seconds of each stage, and ends
with the sums of all ctest runs."""

import os
import pathlib
import re
import subprocess
import unittest

from scratch_tree import ScratchTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# Used in place of make. Prints the lines that ctest would print for the target, and fails if there
# is a file `fail_<target>`.
FAKE_MAKE = """
case $1 in
  test)
    echo "90% tests passed, ${FAILED:-0} tests failed out of 10"
    echo "Total Test time (real) = 123.60 sec" ;;
  test-services) echo "No test has the label services yet: nothing was run." ;;
  asan)
    echo "100% tests passed, 0 tests failed out of 3"
    echo "Total Test time (real) =   7.20 sec" ;;
esac
test ! -e "fail_$1"
"""

STAGES = ["build", "tests", "tests against other servers", "checks", "Kubernetes",
          "ASan and UBSan, everything below gRPC", "TSan, scheduler and sessions"]


class CiTest(ScratchTree):
    def run_ci(self, failing=None, **settings):
        self.write(".ci/run", (REPOSITORY / ".ci/run").read_text(encoding="utf-8"))
        (self.root / ".ci/run").chmod(0o755)
        self.write_program("make", FAKE_MAKE)
        if failing:
            self.write(f"fail_{failing}", "")
        environment = dict(os.environ, PATH=f"{self.root}:{os.environ['PATH']}", **settings)
        result = subprocess.run([self.root / ".ci/run"], env=environment, capture_output=True,
                                text=True, check=False)
        return result.returncode, result.stdout.splitlines()

    def table(self, lines):
        """The rows of the table: (stage, seconds, seconds of tests)."""
        header = next(i for i, line in enumerate(lines) if re.match(r"stage +seconds", line))
        rows = [re.fullmatch(r"(.*?)  +(\d+)(?: +(\d+))?", line) for line in lines[header + 1:]]
        return [row.groups() for row in rows if row]

    def test_success(self):
        status, lines = self.run_ci()
        self.assertEqual(status, 0)
        self.assertEqual(lines[-1], "13 passed, 0 failed")
        self.assertFalse([line for line in lines if line.startswith("WARNING")])
        rows = self.table(lines)
        self.assertEqual([stage for stage, _, _ in rows], [*STAGES, "total"])
        self.assertEqual([tests for _, _, tests in rows], ["0", "124", "0", "0", "0", "7", "0", None])

    def test_long_run_is_warned_about(self):
        status, lines = self.run_ci(CI_MOST_SECONDS="-1")
        self.assertEqual(status, 0)
        self.assertRegex(lines[-2], r"WARNING: this run took \d+ s, more than -1 s")
        self.assertEqual(lines[-1], "13 passed, 0 failed")

    def test_failing_tests_are_counted_and_stop_the_run(self):
        status, lines = self.run_ci(failing="test", FAILED="2")
        self.assertNotEqual(status, 0)
        self.assertEqual(lines[-1], "8 passed, 2 failed")
        self.assertNotIn("=== checks", lines)
        self.assertEqual([stage for stage, _, _ in self.table(lines)], ["build", "tests", "total"])

    def test_failing_check_counts_as_one_failure(self):
        status, lines = self.run_ci(failing="check")
        self.assertNotEqual(status, 0)
        self.assertEqual(lines[-1], "10 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
