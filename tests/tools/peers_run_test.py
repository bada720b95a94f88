"""The driver of tools/bench/peers, with programs whose answers are known, and the protocol of its
peers."""

import contextlib
import io
import json
import os
import pathlib
import stat
import subprocess
import sys
import types
import unittest
from unittest import mock

from scratch_tree import ScratchTree

PEERS = pathlib.Path(__file__).resolve().parents[2] / "tools/bench/peers"
sys.path.insert(0, str(PEERS))
import run  # noqa: E402
import streams  # noqa: E402

# A peer. Each token takes the milliseconds of its first argument; the first token takes as many for
# each token of the prompt.
FAKE = f"""
import sys, time
sys.path.insert(0, {str(PEERS)!r})
import streams

def load():
    print("a library's greeting")
    def run(prompts, output):
        if output == 7:
            raise MemoryError("no room\\nfor 7")
        short = 1 if output == 9 else 0
        between = float(sys.argv[1]) / 1e3
        return [{{"start": 5.0, "token_seconds": [between * (len(prompt) + i) for i in range(output - short)]}}
                for prompt in prompts]
    return run

if sys.argv[1] == "broken":
    print("deprecated", file=sys.stderr)
    sys.exit("no such model")
streams.serve("fake", load)
"""


class Fixed:
    """A program whose tokens all take the same time."""

    def __init__(self, name, rate, others=0.0, fails=()):
        self.name, self.rate, self.others, self.fails = name, rate, others, fails
        self.seeds = []

    def run(self, count, prompt, output, seed):
        if prompt in self.fails:
            raise run.ProgramError("out of memory")
        if (count, prompt, output) != run.WARM_UP:
            self.seeds.append((prompt, seed))
        seconds = [(prompt + i) / self.rate for i in range(output)]
        return [{"start": 0.0, "token_seconds": list(seconds)} for _ in range(count)], self.others


class ProtocolTest(ScratchTree):
    def peer(self, argument):
        self.write("fake.py", FAKE)
        peer = run.Peer("fake", [sys.executable, self.root / "fake.py", argument],
                        self.root / "fake.log")
        self.addCleanup(peer.close)
        return peer

    def test_a_slice_is_answered_whatever_libraries_print(self):
        found, others = self.peer("10").run(2, 4, 3, seed=1)
        self.assertEqual([stream["start"] for stream in found], [5.0, 5.0])
        for stream in found:
            self.assertEqual([round(each, 3) for each in stream["token_seconds"]], [0.04, 0.05, 0.06])
        self.assertGreaterEqual(others, 0)
        self.assertIn("a library's greeting", (self.root / "fake.log").read_text())

    def test_a_slice_that_fails_has_a_reason_and_the_next_one_runs(self):
        peer = self.peer("10")
        with self.assertRaisesRegex(run.ProgramError, "MemoryError: no room for 7"):
            peer.run(1, 4, 7, seed=1)
        with self.assertRaisesRegex(run.ProgramError, "expected 9 tokens for each of 1 streams"):
            peer.run(1, 4, 9, seed=1)
        self.assertEqual(len(peer.run(1, 4, 3, seed=1)[0]), 1)

    def test_a_program_that_does_not_start_is_told_with_the_last_line_of_its_log(self):
        with self.assertRaisesRegex(run.ProgramError, "ended with code 1: no such model"):
            self.peer("broken")

    def test_a_line_that_is_no_slice_is_refused(self):
        for line in ("decode 0 8", "streams 1 2 3", ""):
            with self.assertRaises(ValueError):
                streams.answer_to(line, None)

    def test_prompts_differ_within_a_slice_and_between_seeds(self):
        every = streams.prompts(3, 8, seed=1) + streams.prompts(3, 8, seed=2)
        self.assertEqual(len({tuple(prompt) for prompt in every}), 6)
        self.assertEqual(streams.prompts(3, 8, seed=1), every[:3])

    def test_arrivals_are_counted_by_totals_and_by_increments(self):
        arrivals = streams.Arrivals(2)
        arrivals.have(0, 2)
        arrivals.have(0, 3)
        arrivals.add(1, 1)
        self.assertEqual([len(each["token_seconds"]) for each in arrivals.streams()], [3, 1])


class MeasureTest(unittest.TestCase):
    def rows(self, *programs, rounds=2, quiet=0.2):
        found = run.measure(list(programs), rounds, 1)
        return {row["row"]: row for row in run.summary(found, ["ours"], quiet)}

    def test_every_row_is_set_against_the_best_peer(self):
        rows = self.rows(Fixed("ours", 300), Fixed("a", 100), Fixed("b", 150))
        self.assertEqual(list(rows), list(run.ROWS))
        for row in rows.values():
            self.assertEqual(row["best"], "b")
            self.assertAlmostEqual(row["ratio"], 2)
        self.assertAlmostEqual(rows["prefill of 512"]["tokens_per_second"]["a"], 100)
        self.assertAlmostEqual(rows["decode behind 4096"]["tokens_per_second"]["a"], 100)
        # 16 times 128 tokens in the time of 64 + 127.
        self.assertAlmostEqual(rows["16 streams (64 + 128)"]["tokens_per_second"]["a"],
                               100 * 16 * 128 / 191)

    def test_long_prompts_have_their_own_number_of_rounds_and_no_warm_up(self):
        program = Fixed("ours", 300)
        rows = self.rows(program, rounds=3)
        self.assertEqual((rows["a prompt of 16384"]["rounds"], rows["prefill of 512"]["rounds"]), (1, 3))
        count = lambda prompt: sum(of == prompt for of, _ in program.seeds)
        self.assertEqual((count(16384), count(512)), (1, 4))
        self.assertEqual(len(set(program.seeds)), len(program.seeds))

    def test_a_slice_that_fails_leaves_the_other_rows_and_peers(self):
        rows = self.rows(Fixed("ours", 300), Fixed("a", 200, fails=(16384, 4096)), Fixed("b", 150))
        self.assertEqual(rows["a prompt of 16384"]["missing"], {"a": "out of memory"})
        self.assertEqual(rows["a prompt of 16384"]["best"], "b")
        self.assertEqual(rows["prefill of 512"]["best"], "a")
        alone = self.rows(Fixed("ours", 300), Fixed("a", 200, fails=(16384,)))
        self.assertNotIn("ratio", alone["a prompt of 16384"])

    def test_rounds_that_others_disturbed_do_not_count_if_one_was_quiet(self):
        loud = Fixed("a", 100, others=0.5)
        found = run.measure([Fixed("ours", 300), loud], 2, 1)
        found[(1, 512, 1)]["a"][0].update({"others": 0.1, "prefill of 512": 50})
        rows = {row["row"]: row for row in run.summary(found, ["ours"], 0.2)}
        self.assertAlmostEqual(rows["prefill of 512"]["ratio"], 6)
        self.assertEqual(rows["prefill of 512"]["quiet_rounds"], 1)
        self.assertAlmostEqual(rows["decode, empty context"]["ratio"], 3)
        self.assertEqual(rows["decode, empty context"]["quiet_rounds"], 0)

    def test_the_table_names_what_failed_and_what_did_not_run(self):
        found = run.measure([Fixed("ours", 300), Fixed("a", 200, fails=(16384,))], 1, 1)
        text = run.table(run.summary(found, ["ours"], 0.2), ["ours", "a"], {"vllm": "no wheel"})
        lines = text.splitlines()
        self.assertEqual(len(lines), 1 + len(run.ROWS) + 2)
        self.assertIn("1.50", lines[1])
        self.assertEqual(lines[-2], "a prompt of 16384: a failed: out of memory")
        self.assertEqual(lines[-1], "vllm: not run: no wheel")


class StartTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.arguments = types.SimpleNamespace(
            folder=self.root, threads=2, step_tokens=576, llama_server=None, gguf=None,
            llama_port=18434, build=self.root / "build", weights=[], peers=[])

    def test_the_checkpoint_names_the_class_of_its_model_and_is_made_once(self):
        self.write_program("build/bench/model_bench",
                           'for last; do :; done; mkdir "$last" && echo \'{"model_type": "qwen3"}\' '
                           '> "$last/config.json"')
        for _ in range(2):
            directory = run.make_checkpoint(self.arguments.build, self.root)
        config = json.loads((directory / "config.json").read_text())
        self.assertEqual(config["architectures"], ["Qwen3ForCausalLM"])
        self.assertEqual(config["model_type"], "qwen3")

    def test_a_peer_that_cannot_be_started_is_not_run_and_says_why(self):
        (self.root / run.SHAPE).mkdir()
        (self.root / run.SHAPE / "config.json").write_text("{}")
        self.arguments.peers = ["llama"]
        self.assertEqual(run.start_all(self.arguments, []),
                         {"llama": "--llama-server and --gguf are not given"})
        self.write_program("server", 'echo "unknown option" >&2; exit 4')
        self.arguments.llama_server = self.root / "server"
        self.arguments.gguf = self.root / "model"
        self.assertEqual(run.start_all(self.arguments, []),
                         {"llama": "ended with code 4: unknown option"})

    def test_without_amx_every_program_is_told_so_by_its_environment(self):
        told = {}

        def start_all(_arguments, _programs):
            told.update(os.environ)
            raise run.ProgramError("nothing is started here")

        for flags, isa in (([], None), (["--without-amx"], "avx512_f32")):
            told.clear()
            with mock.patch.dict(os.environ, {"PATH": os.environ["PATH"]}, clear=True), mock.patch.object(run, "start_all", start_all), \
                    contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(run.main(["--folder", str(self.root), *flags]), 1)
            self.assertEqual(told.get("LONGSTREAM_ISA"), isa)
            self.assertEqual("ONEDNN_MAX_CPU_ISA" in told, isa is not None)

    def test_the_adapters_can_be_run_and_their_requirements_are_pinned(self):
        for name in ("vllm", "openvino"):
            self.assertTrue((PEERS / f"{name}_streams.py").stat().st_mode & stat.S_IXUSR)
            for line in (PEERS / f"requirements-{name}.txt").read_text().splitlines():
                self.assertRegex(line, r"^(#.*|[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.+!]+)$")

    def test_help_is_printed(self):
        shown = subprocess.run([PEERS / "run.py", "--help"], capture_output=True, text=True, check=True)
        self.assertIn("--long-rounds", shown.stdout)


if __name__ == "__main__":
    unittest.main()
