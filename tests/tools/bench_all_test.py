"""tools/bench/all.sh runs every program of a build and gives each a file for its figures."""

import os
import pathlib
import subprocess
import unittest

from scratch_tree import ScratchTree

ALL = pathlib.Path(__file__).resolve().parents[2] / "tools/bench/all.sh"


class AllTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.build = self.root / "build"
        self.figures = self.build / "figures"
        for name in ("backends", "kernels", "model", "rows"):
            self.write_bench(name, 'echo "$(basename "$0") $*"')

    def write_bench(self, name, script):
        self.write_program(f"build/bench/{name}_bench", script)

    def run_all(self, **variables):
        # The environment makes all.sh run service.py with --help, which only prints the usage.
        environment = {"PATH": os.environ["PATH"], "SERVICE_BENCH": "--help"} | variables
        return subprocess.run([ALL, self.build, self.figures], text=True, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def test_every_program_gets_a_file(self):
        run = self.run_all()
        self.assertEqual(run.returncode, 0, run.stdout)
        lines = run.stdout.splitlines()
        for name in ("backends", "model"):
            self.assertIn(f"{name}_bench --json {self.figures}/{name}.json", lines)
        for name in ("kernels", "rows"):
            self.assertIn(f"{name}_bench --benchmark_out={self.figures}/{name}.json "
                          "--benchmark_out_format=json", lines)
        self.assertTrue(self.figures.is_dir())
        self.assertTrue(any(line.startswith("usage: service.py") for line in lines), run.stdout)

    def test_each_kind_of_program_has_arguments(self):
        run = self.run_all(KERNEL_BENCH="--benchmark_filter=Project --benchmark_min_time=0.1",
                           LAYER_BENCH="--rounds 1", MODEL_BENCH="--threads 1,0",
                           SERVICE_BENCH="--help --rounds 2")
        lines = run.stdout.splitlines()
        self.assertIn(f"kernels_bench --benchmark_out={self.figures}/kernels.json "
                      "--benchmark_out_format=json --benchmark_filter=Project "
                      "--benchmark_min_time=0.1", lines)
        self.assertIn(f"model_bench --json {self.figures}/model.json --threads 1,0", lines)
        self.assertIn(f"backends_bench --json {self.figures}/backends.json --rounds 1", lines)
        self.assertTrue(any(line.endswith("--help --rounds 2") for line in lines), run.stdout)

    def test_a_failure_is_told_at_the_end(self):
        self.write_bench("kernels", "exit 3")
        run = self.run_all()
        self.assertEqual(run.returncode, 1)
        self.assertIn("rows_bench", run.stdout)


if __name__ == "__main__":
    unittest.main()
