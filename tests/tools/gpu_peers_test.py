"""tools/gpu/peers.py with fake peers. The script must name a missing peer and must fail."""

import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import types
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def load_peers():
    spec = importlib.util.spec_from_file_location("peers", REPOSITORY / "tools/gpu/peers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakeCuda:
    def __init__(self, available):
        self.is_available = lambda: available
        self.get_device_name = lambda: "a GPU"
        self.empty_cache = lambda: None


def raises(error):
    def measure(_):
        raise error
    return measure


class PeersTest(unittest.TestCase):
    def run_main(self, rows, ours=(), available=True):
        """Runs peers.py with these measurements. Returns (exit code, lines printed, figures
        written)."""
        peers = load_peers()
        if rows is not None:
            peers.measurements = lambda: rows
        torch = types.ModuleType("torch")
        torch.cuda = FakeCuda(available)
        with tempfile.TemporaryDirectory() as directory:
            ours_file = pathlib.Path(directory) / "bench.json"
            figures = [{"name": name, "value": value} for name, value in ours]
            ours_file.write_text(json.dumps({"figures": figures}), encoding="utf-8")
            written = pathlib.Path(directory) / "out" / "peers.json"
            arguments = ["peers.py", "--ours", str(ours_file), "--json", str(written)]
            output = io.StringIO()
            saved = sys.argv, sys.modules.get("torch")
            sys.argv, sys.modules["torch"] = arguments, torch
            try:
                with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                    status = peers.main()
            finally:
                sys.argv = saved[0]
                sys.modules.pop("torch")
                if saved[1] is not None:
                    sys.modules["torch"] = saved[1]
            found = json.loads(written.read_text())["figures"] if written.exists() else None
        return status, output.getvalue().splitlines(), found

    def test_ratios_that_are_reached(self):
        status, lines, figures = self.run_main(
            [("RNN prefill 32K", lambda torch: 2400.0),
             ("decode attention 1 x 256K", lambda torch: 300.0)],
            [("RNN prefill 32K", 1600.0)])
        self.assertEqual(status, 0)
        self.assertRegex(lines[0], r"^RNN prefill 32K +2400\.0 us +1\.50 x ours +least 1\.5 +pass$")
        self.assertEqual(figures[0]["ratio"], 1.5)
        self.assertTrue(figures[0]["pass"])
        self.assertNotIn("ratio", figures[1])

    def test_a_ratio_that_is_not_reached(self):
        status, lines, figures = self.run_main([("RNN prefill 32K", lambda torch: 2399.0)],
                                               [("RNN prefill 32K", 1600.0)])
        self.assertEqual(status, 1)
        self.assertRegex(lines[0], "FAIL$")
        self.assertFalse(figures[0]["pass"])

    def test_a_second_peer_of_a_figure(self):
        _, lines, figures = self.run_main([("prefill attention 16K, cuDNN", lambda torch: 900.0)],
                                          [("prefill attention 16K", 1000.0)])
        self.assertEqual(figures[0]["ratio"], 0.9)
        self.assertNotIn("pass", figures[0])

    def test_whatever_a_peer_raises_is_its_own(self):
        status, lines, figures = self.run_main(
            [("RNN prefill 32K", raises(ImportError("No module named 'fla'"))),
             ("step dense 4K", raises(AttributeError("no early_initialization\nmore"))),
             ("step dense 32K", raises(RuntimeError(""))),
             ("prefill attention 16K", lambda torch: 7000.0)],
            [("prefill attention 16K", 7000.0), ("step dense 4K", 7900.0)])
        self.assertEqual(status, 1)
        self.assertEqual(figures[0]["missing"], "cannot be imported: No module named 'fla'")
        self.assertEqual(figures[1]["missing"], "AttributeError: no early_initialization")
        self.assertEqual(figures[2]["missing"], "RuntimeError: no message")
        self.assertTrue(figures[3]["pass"])
        self.assertEqual(lines[-1], "3 of what is asked for is not reached or could not be taken")

    def test_without_a_figure_of_ours_nothing_is_reached(self):
        status, lines, figures = self.run_main([("RNN prefill 32K", lambda torch: 2400.0)])
        self.assertEqual(status, 1)
        self.assertRegex(lines[0], "no figure of ours$")
        self.assertNotIn("pass", figures[0])

    def test_without_a_gpu_or_pytorch(self):
        status, lines, figures = self.run_main(None, available=False)
        self.assertEqual(status, 2)
        self.assertEqual(lines, ["no CUDA device: PyTorch finds none"])
        self.assertIsNone(figures)

    def test_what_is_asked_for_is_measured(self):
        peers = load_peers()
        names = [name for name, _ in peers.measurements()]
        self.assertEqual(set(peers.LEAST_RATIO) - set(names), set())


if __name__ == "__main__":
    unittest.main()
