"""The driver of tools/bench that loads servers: figures from arrival times, and HTTP streams."""

import contextlib
import http.server
import io
import json
import math
import os
import pathlib
import sys
import threading
import unittest

from scratch_tree import ScratchTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/bench"))
import http_load  # noqa: E402
import service  # noqa: E402


def stream(start, *seconds):
    return {"start": start, "token_seconds": list(seconds)}


class FiguresTest(unittest.TestCase):
    def test_percentiles_lie_between_ranks(self):
        self.assertEqual(service.percentile([3, 1, 2], 0.5), 2)
        self.assertAlmostEqual(service.percentile([0, 10], 0.99), 9.9)
        self.assertEqual(service.percentile([7], 0.99), 7)

    def test_the_total_counts_from_the_first_request_to_the_last_token(self):
        self.assertEqual(service.total_rate([stream(10, 1, 2), stream(12, 1, 2)]), 1.0)

    def test_decoding_counts_only_while_all_decode(self):
        # From 3, when the second stream begins, to 6, when the first one ends, each stream gets one
        # token a second.
        both = [stream(0, 1, 3, 4, 5, 6), stream(0, 3, 4, 5, 6, 7, 8)]
        self.assertAlmostEqual(service.decode_rate(both), 2.0)

    def test_tokens_at_the_borders_count_by_their_own_time(self):
        # Within [3, 6] the first stream has tokens at 3.5 and 5.5: one token in two seconds.
        both = [stream(0, 1.5, 3.5, 5.5, 7.5), stream(0, 3, 4.5, 6)]
        self.assertAlmostEqual(service.decode_rate(both), 1 / 2 + 2 / 3)

    def test_streams_that_never_decode_together_have_no_rate(self):
        self.assertIsNone(service.decode_rate([stream(0, 1, 2), stream(0, 3, 4)]))

    def test_gaps_are_those_that_end_within(self):
        self.assertEqual(service.gaps([stream(10, 1, 2, 4, 8)], 11.5, 14), [1, 2])

    def test_quiet_rounds_count_and_all_where_there_is_none(self):
        rows = [{"others": 0.1, "x": 1}, {"others": 0.3, "x": 9}, {"others": 0.2, "x": 3}]
        self.assertEqual(service.median_of(service.counted(rows, 0.2), "x"), 2)
        self.assertEqual(service.median_of(service.counted(rows, 0.0), "x"), 3)


class FakeServer:
    """A fake server on which one step takes 20 ms."""

    def __init__(self, too_few=0):
        self.too_few, self.beside, self.asked = too_few, False, []

    def cpu_seconds(self):
        return 0.0

    def bench(self, streams, prompt_tokens, output_tokens):
        if prompt_tokens == 1000:  # 1 s alone, 2 s beside streams
            return [stream(100, 2 if self.beside else 1)]
        return [stream(0, *(0.1 + 0.02 * i for i in range(output_tokens))) for _ in range(streams)]

    def start(self, streams, prompt_tokens, output_tokens):
        self.beside = True
        self.asked.append(output_tokens)
        return streams

    def finish(self, streams):
        self.beside = False
        if len(self.asked) <= self.too_few:
            return [stream(95, 1, 5.5) for _ in range(streams)]
        # Tokens come every 10 ms, but every 60 ms from 100 to 102, while the prompt is read. They
        # go on for 5 s after that.
        times = [0.01 * i for i in range(1, 500)] + [5 + 0.06 * i for i in range(34)]
        times += [7.04 + 0.01 * i for i in range(500)]
        return [stream(95, *times) for _ in range(streams)]


class MeasureTest(unittest.TestCase):
    def setUp(self):
        service.FIRST_UNDISTURBED = 0
        self.arguments = service.arguments_of(
            ["--prefill", "1000", "--prompt-tokens", "8", "--output-tokens", "4", "--slices", "1"])

    def test_a_round_of_load_holds_the_service_against_the_loop(self):
        class Loop:
            asked = []

            def run(self, line):
                self.asked.append(line)
                rate = 80 if len(self.asked) == 1 else 120
                return {"tokens_per_second": rate, "others": 0.4, "probes_gbps": [30, 50]}

        row = service.measure_load(FakeServer(), Loop(), [], 2, self.arguments)
        self.assertEqual(Loop.asked, ["decode 10 4", "decode 10 4"])
        self.assertAlmostEqual(row["decoding"], 100)
        self.assertAlmostEqual(row["ratio"], 1.0)
        self.assertAlmostEqual(row["total"], 8 / 0.16)
        self.assertEqual(row["probe_gbps"], 40)
        self.assertGreaterEqual(row["others"], 0.4)
        table = service.load_table({2: [row]}, quiet=math.inf)
        self.assertEqual(table.splitlines()[1].split()[:5], "2 50.0 100.0 100.0 1.000".split())
        self.assertEqual(table.split()[-3:], "1 of 1".split())

    def test_a_round_of_a_long_prompt(self):
        row = service.measure_prefill(FakeServer(), 2, self.arguments)
        self.assertAlmostEqual(row["itl_ms"], 10)
        self.assertAlmostEqual(row["p99_ms"], 60)
        self.assertAlmostEqual(row["stretch"], 6)
        self.assertAlmostEqual(row["kept"], 0.5)
        self.assertEqual((row["alone"], row["beside"]), (1000, 500))
        table = service.prefill_table({2: [row]}, 100, 1000)
        self.assertEqual(table.splitlines()[1].split()[:6], "2 10.00 60.00 60.00 6.00 6.00".split())

    def test_streams_that_end_before_the_prompt_do_not_count(self):
        server = FakeServer(too_few=1)
        self.assertAlmostEqual(service.measure_prefill(server, 1, self.arguments)["stretch"], 6)
        # 1 s, and two thirds of the 1 s that the prompt takes alone: 83 tokens at 20 ms each. The
        # second attempt asks for twice as many.
        self.assertEqual(server.asked, [83, 166])
        with self.assertRaisesRegex(service.ProgramError, "throughout the long prompt"):
            service.measure_prefill(FakeServer(too_few=3), 1, self.arguments)


class Completion(http.server.BaseHTTPRequestHandler):
    """Answers a request with the events that the test has set."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        if self.path == "/refused":
            self.send_error(503, "loading")
            return
        self.send_response(200)
        self.end_headers()
        for event in self.server.events:
            self.wfile.write(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"
                             .encode())

    def log_message(self, *_):
        pass


class HttpLoadTest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Completion)
        self.server.bodies = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def load(self, path, *events, streams=1, tokens=3):
        self.server.events = events
        return http_load.load(self.url + path, streams, 5, tokens, vocabulary=100)

    def test_llama_cpp(self):
        streams = self.load("/completion", {"content": "a", "tokens": [1]},
                            {"content": "bc", "tokens": [2, 3]},
                            {"content": "", "stop": True, "tokens_predicted": 3}, streams=4)
        self.assertEqual([len(each["token_seconds"]) for each in streams], [3] * 4)
        prompts = {tuple(body["prompt"]) for body in self.server.bodies}
        self.assertEqual((len(prompts), {len(prompt) for prompt in prompts}), (4, {5}))
        self.assertEqual(self.server.bodies[0]["n_predict"], 3)

    def test_text_that_is_held_back_came_with_the_last_event(self):
        (one,) = self.load("/", {"content": "a"}, {"content": "", "tokens_predicted": 3})
        self.assertEqual(len(one["token_seconds"]), 3)
        self.assertEqual(one["token_seconds"][1], one["token_seconds"][2])

    def test_openai(self):
        (one,) = self.load("/v1/completions", {"choices": [{"text": "a"}]},
                           {"choices": [{"text": "b"}]}, {"choices": [{"text": "c"}]},
                           {"choices": [], "usage": {"completion_tokens": 3}}, "[DONE]")
        self.assertEqual(len(one["token_seconds"]), 3)

    def test_failures_are_told(self):
        for path, events in (("/refused", []), ("/", [{"content": "a"}]),
                             ("/", [{"error": {"message": "no slot"}}]), ("/", ["babble"])):
            with self.assertRaises(http_load.LoadError):
                self.load(path, *events)


class ServerTest(ScratchTree):
    def test_a_server_whose_client_fails_is_ended(self):
        self.write_program("bin/longstream-server", f"""echo $$ > {self.root}/pid
            echo '{{"event": "listening", "port": "1"}}' >&2; exec sleep 60""")
        self.write_program("bin/longstream", "echo no such model >&2; exit 1")
        with self.assertRaisesRegex(service.ProgramError, "no such model"):
            service.Server(self.root, self.root, "bf16", 2, self.root / "log")
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.root / "pid").read_text(encoding="utf-8")), 0)


class CommandLineTest(unittest.TestCase):
    def test_wrong_peers_are_refused(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            service.arguments_of(["--peer", "llama=127.0.0.1:80"])

    def test_a_missing_build_is_one_sentence(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual(service.main(["--build", "/nowhere"]), 1)
        self.assertIn("service.py: ", err.getvalue())


if __name__ == "__main__":
    unittest.main()
