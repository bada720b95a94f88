"""The CI script stops at the first failing stage and closes with the sum of all ctest runs."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# Stands in for make: the target's line of ctest, and failure where a file `fail_<target>` lies.
FAKE_MAKE = """#!/bin/sh
case $1 in
  test) echo "90% tests passed, ${FAILED:-0} tests failed out of 10" ;;
  asan) echo "100% tests passed, 0 tests failed out of 3" ;;
esac
test ! -e "fail_$1"
"""


class CiTest(unittest.TestCase):
    def run_ci(self, failing=None, failed_tests=0):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / ".ci").mkdir()
            shutil.copy(REPOSITORY / ".ci/run", root / ".ci/run")
            (root / "make").write_text(FAKE_MAKE, encoding="utf-8")
            (root / "make").chmod(0o755)
            if failing:
                (root / f"fail_{failing}").touch()
            environment = dict(os.environ, FAILED=str(failed_tests),
                               PATH=f"{root}:{os.environ['PATH']}")
            result = subprocess.run([root / ".ci/run"], env=environment, capture_output=True,
                                    text=True, check=False)
            return result.returncode, result.stdout.splitlines()

    def test_success(self):
        status, lines = self.run_ci()
        self.assertEqual(status, 0)
        self.assertEqual(lines[-1], "13 passed, 0 failed")

    def test_failing_tests_are_counted_and_stop_the_run(self):
        status, lines = self.run_ci(failing="test", failed_tests=2)
        self.assertNotEqual(status, 0)
        self.assertEqual(lines[-1], "8 passed, 2 failed")
        self.assertNotIn("=== checks", lines)

    def test_failing_check_counts_as_one_failure(self):
        status, lines = self.run_ci(failing="check")
        self.assertNotEqual(status, 0)
        self.assertEqual(lines[-1], "10 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
