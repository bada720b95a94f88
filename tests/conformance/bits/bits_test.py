"""bits.sh must find a build equal to itself, and must find a logit whose last bit differs.

usage: bits_test.py BUILD ONE_LOGIT_PLUGIN TWO_THREADS_PLUGIN
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
MODEL = "golden/llama_linear"  # served by the dense plugin
BUILD, ONE_LOGIT, TWO_THREADS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])


class BitsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.out = self.directory / "out"

    def bits(self, old, new, sets="baseline", models=f"^{MODEL}$"):
        """Runs bits.sh with its files in self.out. Returns its exit code and output."""
        result = subprocess.run(
            [REPOSITORY / "tools/check/bits.sh", "--driver", BUILD / "tests/bits_driver",
             "--sets", sets, "--models", models, "--out", self.out, old, new],
            capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def text(self, side):
        """Returns the results that bits.sh wrote for one side, "old" or "new"."""
        return (self.out / side / f"baseline/{MODEL}.stored.txt").read_text(encoding="utf-8")

    def build_with(self, dense):
        """Makes a build directory whose dense plugin is `dense`. None: the plugin is missing."""
        plugins = self.directory / "other/plugins"
        plugins.mkdir(parents=True)
        for name in ("hwfa2", "hypenet"):
            (plugins / f"{name}.cpu.so").symlink_to(BUILD / f"plugins/{name}.cpu.so")
        if dense:
            (plugins / "dense.cpu.so").symlink_to(dense)
        return plugins.parent

    def test_a_build_equals_itself(self):
        status, output = self.bits(BUILD, BUILD)
        self.assertEqual(status, 0, output)
        self.assertIn("the builds give the same bits", output)
        hashes = re.findall(r"^(?:old|new) ([0-9a-f]{64}) ", output, re.MULTILINE)
        self.assertEqual(len(hashes), 2, output)
        self.assertEqual(hashes[0], hashes[1])
        for phase in ("prompt to", "greedy", "forked", "join", "main restored", "score", "snapshot"):
            self.assertRegex(self.text("new"), f"(?m)^{phase}")

    def test_one_bit_of_one_logit_is_found(self):
        status, output = self.bits(self.build_with(ONE_LOGIT), BUILD)
        self.assertEqual(status, 1, output)
        self.assertIn(f"DIFFERS: baseline/{MODEL}.stored.txt", output)
        pairs = zip(self.text("old").splitlines(), self.text("new").splitlines())
        differing = [old for old, new in pairs if old != new]
        self.assertEqual(len(differing), 1)
        self.assertIn(differing[0][:150], output)

    def test_other_bits_with_two_threads_are_found(self):
        status, output = self.bits(BUILD, self.build_with(TWO_THREADS))
        self.assertEqual(status, 1, output)
        self.assertIn(f"FAILED new: baseline {MODEL}.stored.txt: 2 threads give other bits", output)

    def test_a_missing_plugin_fails(self):
        status, output = self.bits(self.build_with(None), BUILD)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, "FAILED old: .*dense.cpu.so")

    def test_wrong_usage(self):
        for arguments, expected in (
                ({"new": self.directory / "none"}, "there is no directory"),
                ({"models": "nothing"}, "no model's name fits 'nothing'"),
                ({"sets": "baseline sse9"}, "there is no set sse9")):
            status, output = self.bits(**{"old": BUILD, "new": BUILD, **arguments})
            self.assertEqual(status, 2, output)
            self.assertIn(expected, output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
