"""The driver of tools/bench that compares a server that has a part with one that has not."""

import contextlib
import io
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/bench"))
import server_cost  # noqa: E402


class FakeServer:
    def __init__(self, name, calls, rate, cpu, finish):
        self.name, self.calls = name, calls
        self.figures = {"tokens_per_second": rate, "cpu_per_token": cpu, "finish_ms": finish}

    def run(self):
        self.calls.append(self.name)
        return self.figures


class ServerCostTest(unittest.TestCase):
    def test_the_interval_is_that_of_the_logarithms(self):
        mean, low, high = server_cost.interval([0.5, 2.0])
        self.assertAlmostEqual(mean, 1)
        # The deviation of -log 2 and log 2 is sqrt(2) log 2, the error of their mean log 2.
        self.assertAlmostEqual(high, math.exp(12.706 * math.log(2)))
        self.assertAlmostEqual(low, 1 / high)
        self.assertEqual(server_cost.interval([1.1] * 50)[1:], (1.1, 1.1))

    def test_one_pair_has_no_interval(self):
        mean, low, high = server_cost.interval([0.9])
        self.assertAlmostEqual(mean, 0.9)
        self.assertTrue(math.isnan(low) and math.isnan(high))

    def test_the_order_changes_from_pair_to_pair(self):
        calls, lines = [], []
        servers = [FakeServer("plain", calls, 100, 0.001, 0.25),
                   FakeServer("secured", calls, 99, 0.002, 1)]
        pairs = server_cost.measure(servers, 3, lines.append)
        self.assertEqual(calls, ["plain", "secured", "secured", "plain", "plain", "secured"])
        self.assertEqual(server_cost.ratios_of(pairs, "tokens_per_second"), [0.99] * 3)
        self.assertEqual(server_cost.ratios_of(pairs, "cpu_per_token"), [2] * 3)
        self.assertIn("tokens/s 0.990, CPU seconds per token 2.000", lines[2])
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            server_cost.print_summary(pairs)
        self.assertIn("tokens/s: with / without 0.990 (95 %: 0.990 to 0.990", printed.getvalue())
        self.assertIn("medians 2000.0 µs and 1000.0 µs", printed.getvalue())
        self.assertIn("a turn ends 0.75 ms later", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
