"""The driver of tools/bench, run with fake programs whose answers are known."""

import contextlib
import io
import json
import pathlib
import shlex
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/bench"))
import compare  # noqa: E402

# A fake program. It answers every slice at the rate that its first argument gives in tokens/s. The
# slice "decode 9 9" takes 1.5 times as long.
FAKE = """
import json, sys
rate, probe = float(sys.argv[1]), float(sys.argv[2])
print(json.dumps({"ready": "fake"}), flush=True)
for line in sys.stdin:
    line = line.strip()
    if line == "fail":
        print(json.dumps({"error": "no such slice"}), flush=True)
        continue
    if line == "die":
        sys.exit(3)
    if line == "babble":
        print("hello", flush=True)
        continue
    seconds = 10 / rate * (1.5 if line == "decode 9 9" else 1)
    print(json.dumps({"slice": line, "tokens": 10, "seconds": seconds, "bytes": 2e9,
                      "probes_gbps": [probe, probe + 2]}), flush=True)
"""


def fake(rate, probe=50):
    return " ".join(shlex.quote(part) for part in (sys.executable, "-c", FAKE, str(rate), str(probe)))


def answer(rate, probes=(50, 50), size=0, others=0.0):
    return {"tokens": 10, "seconds": 10 / rate, "tokens_per_second": rate, "bytes": size,
            "probes_gbps": list(probes), "others": others}


def compare_all(answers, lines):
    return compare.compare(answers, "ours", lines, fast=45, quiet=0.2)


class ArithmeticTest(unittest.TestCase):
    def test_a_ratio_is_the_median_of_pairs_and_fast_pairs_count_apart(self):
        ours = [answer(10), answer(60, (50, 44)), answer(30), answer(40, (30, 30)), answer(50)]
        theirs = [answer(10), answer(10), answer(10, (44.9, 60)), answer(10), answer(10)]
        (row,) = compare_all({"ours": {"x": ours}, "p": {"x": theirs}}, ["x"])
        self.assertEqual((row["ratio"], row["least"], row["most"], row["pairs"]), (4, 1, 6, 5))
        self.assertEqual((row["fast_ratio"], row["fast_pairs"]), (3, 2))

    def test_the_fastest_peer_of_each_row_counts(self):
        answers = {"ours": {"x": [answer(12)], "y": [answer(12)]},
                   "a": {"x": [answer(3)], "y": [answer(6)]},
                   "b": {"x": [answer(4)], "y": [answer(2)]}}
        rows = compare_all(answers, ["x", "y"])
        self.assertEqual([(row["peer"], row["ratio"]) for row in rows], [("b", 3), ("a", 2)])

    def test_the_fraction_of_the_probe(self):
        # 2 GB in one second, at a probe bandwidth of 40 GB/s.
        self.assertAlmostEqual(compare.fraction([answer(10, (30, 50), 2e9)]), 0.05)
        self.assertIsNone(compare.fraction([answer(10)]))

    def test_rounds_that_others_disturbed_do_not_count(self):
        ours = [answer(10), answer(90, others=0.3), answer(10), answer(20)]
        theirs = [answer(10), answer(1), answer(1, others=0.21), answer(10, others=0.2)]
        (row,) = compare_all({"ours": {"x": ours}, "p": {"x": theirs}}, ["x"])
        self.assertEqual((row["ratio"], row["pairs"], row["quiet_rounds"], row["rounds"]),
                         (1.5, 2, 2, 4))
        self.assertEqual(row["tokens_per_second"], 15)

    def test_where_no_round_was_quiet_all_count(self):
        (row,) = compare_all({"ours": {"x": [answer(8, others=1), answer(8)]},
                              "p": {"x": [answer(4), answer(2, others=1)]}}, ["x"])
        self.assertEqual((row["ratio"], row["quiet_rounds"]), (3, 0))

    def test_growth_is_of_what_counts(self):
        of = {"0": [answer(100), answer(9, others=1)], "9": [answer(50), answer(40), answer(50)]}
        self.assertEqual(compare.growth({"ours": of}, ["0", "9"], "0", 0.2), {"ours": {"9": 2}})

    def test_the_table_has_what_there_is(self):
        text = compare.table(compare_all(
            {"ours": {"x": [answer(12.5, size=2e9)]}, "p": {"x": [answer(5, (40, 40))]}}, ["x"]))
        self.assertEqual(text.splitlines()[1].split(),
                         "x 12.50 50.0 5 % p 5.00 40.0 2.50 2.50 2.50 (0 of 1) 1 of 1".split())
        alone = compare.table(compare_all({"ours": {"x": [answer(12.5)]}}, ["x"]))
        self.assertEqual(alone.splitlines()[1].split(), "x 12.50 50.0 - 1 of 1".split())


class MeasureTest(unittest.TestCase):
    class Scripted:
        """A program whose answers report the disturbances in `others`, one after the other, then
        none."""

        def __init__(self, name, others):
            self.name, self.others, self.asked = name, list(others), []

        def run(self, line):
            self.asked.append(line)
            return answer(10, others=self.others.pop(0) if self.others else 0.0)

    def measure(self, programs, lines, rounds, most_rounds):
        return compare.measure(programs, lines, rounds, most_rounds, quiet=0.2)

    def test_rounds_go_on_until_enough_are_quiet(self):
        ours, peer = self.Scripted("ours", [1, 0, 0]), self.Scripted("p", [0, 1, 0])
        answers = self.measure([ours, peer], ["x"], rounds=2, most_rounds=9)
        # The first round is a warm-up and does not count. The second is disturbed.
        self.assertEqual([a["others"] for a in answers["p"]["x"]], [1, 0, 0])
        self.assertEqual(len(answers["ours"]["x"]), 3)

    def test_but_not_for_ever(self):
        answers = self.measure([self.Scripted("ours", [1] * 99)], ["x"], rounds=2, most_rounds=4)
        self.assertEqual(len(answers["ours"]["x"]), 4)

    def test_slices_with_enough_rest(self):
        ours = self.Scripted("ours", [0, 0, 0, 0, 1])
        self.measure([ours], ["x", "y", "z"], rounds=1, most_rounds=9)
        self.assertEqual(ours.asked, ["x", "y", "z", "x", "y", "z", "y"])


class ProgramsTest(unittest.TestCase):
    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = compare.main(list(arguments))
            except SystemExit as ended:
                status = ended.code
        return status, out.getvalue(), err.getvalue()

    def test_rounds_are_measured_after_one_that_is_not(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "out.json")
            status, out, err = self.run_main(
                "--ours", fake(40), "--peer", "slow=" + fake(10), "--peer", "quick=" + fake(20),
                "--slice", "decode 0 9", "--slice", "decode 9 9", "--rounds", "3", "--quiet", "inf",
                "--base", "decode 0 9", "--json", str(path))
            result = json.loads(path.read_text())
        self.assertEqual(status, 0, err)
        self.assertEqual([(row["peer"], round(row["ratio"], 6), row["fast_pairs"])
                          for row in result["rows"]], [("quick", 2, 3)] * 2)
        self.assertEqual(len(result["answers"]["slow"]["decode 9 9"]), 3)
        self.assertAlmostEqual(result["growth"]["ours"]["decode 9 9"], 1.5)
        self.assertIn("ours: time per token, decode 9 9 / decode 0 9: 1.50", out)
        self.assertIn("round 3; quiet: 3, 3", err)

    def test_what_goes_wrong_is_said(self):
        for line, expected in (("fail", "p: fail: no such slice"), ("die", "p: ended with code 3"),
                               ("babble", "p: no JSON: hello")):
            # In the warm-up round the peer runs first, so its failure is reported.
            status, _, err = self.run_main(
                "--ours", fake(1), "--peer", "p=" + fake(1), "--slice", line)
            self.assertEqual(status, 1)
            self.assertIn(expected, err)
        status, _, err = self.run_main("--ours", "/nonexistent/program", "--slice", "x")
        self.assertEqual(status, 1)
        self.assertIn("/nonexistent/program", err)
        status, _, err = self.run_main("--ours", "echo {}", "--slice", "x")
        self.assertEqual(status, 1)
        self.assertIn('expected a line with "ready"', err)

    def test_arguments_are_checked(self):
        for arguments, expected in (
                (("--peer", "nothing"), "expected NAME=COMMAND"),
                (("--peer", "ours=x"), "needs a different name"),
                (("--rounds", "0"), "at least 1"),
                (("--rounds", "5", "--most-rounds", "4"), "at most --most-rounds"),
                (("--base", "y"), "one of the slices")):
            status, _, err = self.run_main("--ours", "x", "--slice", "x", *arguments)
            self.assertEqual(status, 2)
            self.assertIn(expected, err)


if __name__ == "__main__":
    unittest.main()
