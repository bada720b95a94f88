"""The programs of deploy/local: what a fleet refuses before it starts anything."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOCAL = pathlib.Path(__file__).resolve().parents[2] / "deploy/local"
sys.path.insert(0, str(LOCAL))
from folder import FleetFolder  # noqa: E402
from postgres import Postgres  # noqa: E402
from service import ServiceError  # noqa: E402


class FolderTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name) / "fleet"

    def test_two_fleets_do_not_share_a_folder(self):
        first = FleetFolder(self.path)
        with self.assertRaisesRegex(ServiceError, "another fleet runs in .*fleet: end it"):
            FleetFolder(self.path)
        os.close(first._lock)
        FleetFolder(self.path)

    def test_it_is_emptied(self):
        folder = FleetFolder(self.path)
        (self.path / "replica-1").mkdir()
        (self.path / "replica-1/log").write_text("x")
        (self.path / "file").write_text("x")
        folder.clear()
        self.assertEqual(list(self.path.iterdir()), [])
        with self.assertRaises(ServiceError):
            FleetFolder(self.path)

    def test_a_path_that_is_no_folder(self):
        self.path.write_text("x")
        with self.assertRaisesRegex(ServiceError, "--folder: "):
            FleetFolder(self.path)


class OtherPostgres(Postgres):
    """One that says of any server that it answers."""

    def __init__(self, folder):
        super().__init__(folder, 1)
        self.number = 4711

    def _program(self, name):
        return "true"

    @property
    def pid(self):
        return self.number


@unittest.skipUnless(pathlib.Path("/usr/lib/postgresql").is_dir(), "PostgreSQL is not installed")
class PostgresTest(unittest.TestCase):
    def test_only_its_own_server_is_ready(self):
        with tempfile.TemporaryDirectory() as temporary:
            database = OtherPostgres(pathlib.Path(temporary))
            self.assertFalse(database.ready(), "no server uses the data")
            data = pathlib.Path(temporary) / "data"
            data.mkdir()
            (data / "postmaster.pid").write_text("4711\n/data\n")
            self.assertTrue(database.ready())
            database.number = 4712
            self.assertFalse(database.ready(), "another server answers")


class ProgramsTest(unittest.TestCase):
    def error_of(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-B", LOCAL / "fleet.py", "--folder", folder, *options],
                capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_wrong_paths_are_named(self):
        self.assertEqual(self.error_of("--build", "/nowhere"),
                         "fleet: --build: there is no program /nowhere/bin/longstream-server\n")
        with tempfile.TemporaryDirectory() as build:
            programs = pathlib.Path(build) / "bin"
            programs.mkdir()
            for name in ("longstream", "longstream-server", "longstream-gateway"):
                (programs / name).touch(0o755)
            self.assertEqual(self.error_of("--build", build, "--envoy", "/none"),
                             "fleet: --envoy: there is no program /none\n")


if __name__ == "__main__":
    unittest.main()
