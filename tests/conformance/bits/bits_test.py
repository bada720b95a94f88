"""bits.sh finds a build equal to itself, and finds one logit that is off by its last bit.

usage: bits_test.py BUILD ONE_LOGIT_PLUGIN TWO_THREADS_PLUGIN
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
MODEL = "golden/llama_linear"  # the dense plugin's
BUILD, ONE_LOGIT, TWO_THREADS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])


def bits(old, new, *flags, sets="baseline", models=f"^{MODEL}$"):
    """The exit code and the output of bits.sh."""
    result = subprocess.run(
        [REPOSITORY / "tools/check/bits.sh", "--driver", BUILD / "tests/bits_driver",
         "--sets", sets, "--models", models, *flags, old, new],
        capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


class BitsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def build_with(self, dense):
        """A build directory whose dense plugin is another one."""
        plugins = self.directory / "other/plugins"
        plugins.mkdir(parents=True)
        for name in ("hwfa2", "hypenet"):
            (plugins / f"{name}.cpu.so").symlink_to(BUILD / f"plugins/{name}.cpu.so")
        if dense:
            (plugins / "dense.cpu.so").symlink_to(dense)
        return plugins.parent

    def test_a_build_equals_itself(self):
        out = self.directory / "out"
        status, output = bits(BUILD, BUILD, "--out", out)
        self.assertEqual(status, 0, output)
        self.assertIn("the builds give the same bits", output)
        hashes = re.findall(r"^(?:old|new) ([0-9a-f]{64}) ", output, re.MULTILINE)
        self.assertEqual(len(hashes), 2, output)
        self.assertEqual(hashes[0], hashes[1])
        text = (out / f"new/baseline/{MODEL}.stored.txt").read_text(encoding="utf-8")
        for phase in ("prompt to", "greedy", "forked", "join", "restored", "score", "snapshot"):
            self.assertRegex(text, rf"(?m)^(main )?{phase}")

    def test_one_bit_of_one_logit_is_found(self):
        out = self.directory / "out"
        status, output = bits(self.build_with(ONE_LOGIT), BUILD, "--out", out)
        self.assertEqual(status, 1, output)
        self.assertIn(f"DIFFERS: baseline/{MODEL}.stored.txt", output)
        old, new = ((out / f"{side}/baseline/{MODEL}.stored.txt").read_text(encoding="utf-8")
                    for side in ("old", "new"))
        lines = [pair for pair in zip(old.splitlines(), new.splitlines()) if pair[0] != pair[1]]
        self.assertEqual(len(lines), 1)
        self.assertIn(lines[0][0][:150], output)

    def test_other_bits_with_two_threads_are_found(self):
        status, output = bits(BUILD, self.build_with(TWO_THREADS))
        self.assertEqual(status, 1, output)
        self.assertIn(f"FAILED new: baseline {MODEL}.stored.txt: 2 threads give other bits", output)

    def test_a_missing_plugin_fails(self):
        status, output = bits(self.build_with(None), BUILD)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, "FAILED old: .*dense.cpu.so")

    def test_wrong_usage(self):
        for arguments, expected in (
                ((BUILD, self.directory / "none"), "there is no directory"),
                ((BUILD, BUILD, "--sets"), "usage: bits.sh")):
            status, output = bits(*arguments)
            self.assertEqual(status, 2, output)
            self.assertIn(expected, output)
        status, output = bits(BUILD, BUILD, models="nothing")
        self.assertEqual(status, 2, output)
        self.assertIn("no model's name fits 'nothing'", output)
        status, output = bits(BUILD, BUILD, sets="sse9")
        self.assertNotEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
