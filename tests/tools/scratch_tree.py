"""A temporary directory for each test, which may be a git repository."""

import os
import pathlib
import subprocess
import tempfile
import unittest


class ScratchTree(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def write_program(self, path, script):
        self.write(path, f"#!/bin/sh\n{script}\n")
        (self.root / path).chmod(0o755)

    def git(self, *arguments, **variables):
        """Runs git. The environment variables are this process's variables and `variables`."""
        environment = dict(os.environ, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1",
                           **variables)
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments],
                       cwd=self.root, env=environment, capture_output=True, check=True)
