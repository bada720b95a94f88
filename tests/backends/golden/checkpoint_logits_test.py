"""Runs checkpoint_logits on a golden case and on configs that it refuses or warns of.

    python checkpoint_logits_test.py PROGRAM GOLDEN_CASE
"""

import array
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, CASE = sys.argv[1], pathlib.Path(sys.argv[2])


def tensor(path, name, kind):
    """Reads one tensor of a safetensors file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + length])[name]["data_offsets"]
    return array.array(kind, data[8 + length + begin : 8 + length + end])


class CheckpointLogitsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "case"
        shutil.copytree(CASE, self.directory)
        self.tokens = tensor(CASE / "golden.safetensors", "tokens", "i")
        (self.directory / "tokens.i32").write_bytes(self.tokens.tobytes())

    def change(self, **keys):
        file = self.directory / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | keys))

    def answer(self):
        run = subprocess.run([PROGRAM], input=f"{self.directory}\n", text=True, check=True,
                             stdout=subprocess.PIPE)
        return run.stdout.rstrip("\n").split("\t")

    def test_logits_of_every_token(self):
        self.assertEqual(self.answer(), ["logits"])
        logits = array.array("f", (self.directory / "logits.f32").read_bytes())
        golden = tensor(CASE / "golden.safetensors", "logits", "f")
        rows = tensor(CASE / "golden.safetensors", "rows", "i")
        vocabulary = len(golden) // len(rows)
        self.assertEqual(len(logits), vocabulary * len(self.tokens))
        for i, row in enumerate(rows):
            ours = logits[row * vocabulary : (row + 1) * vocabulary]
            for one, other in zip(ours, golden[i * vocabulary : (i + 1) * vocabulary]):
                self.assertAlmostEqual(one, other, delta=1e-4)

    def test_warnings(self):
        self.change(license="mit")
        answer = self.answer()
        self.assertEqual(answer[0], "logits")
        self.assertIn("are ignored: license", answer[1])

    def test_refusals(self):
        self.change(num_experts=8)
        answer = self.answer()
        self.assertEqual(answer[0], "refused")
        self.assertIn("num_experts = 8", answer[1])
        self.assertFalse((self.directory / "logits.f32").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
