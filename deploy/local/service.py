"""A program that runs in the background, with a log of its own."""

import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import time

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class ServiceError(Exception):
    """A service that does not start. The text is for the user."""


@dataclasses.dataclass(frozen=True)
class Child:
    """How a program is started: as which user, and which signal it gets if this program dies."""

    user: str | None = None
    on_death: int = signal.SIGKILL


class Service:
    """A program that runs until it is stopped. The subclasses say which one.

    name: for people. folder: of its files. log: its output, of all its runs.
    """

    child = Child()
    stop_signal = signal.SIGTERM

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        raise NotImplementedError

    def address(self) -> str:
        """Say where it is, for people."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether it answers."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the program, without waiting until it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = self._spawn(self.command())

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        """Wait until the program answers. Raises ServiceError if it ends, or does not in time."""
        deadline = time.monotonic() + seconds
        while not self.ready():
            status = self.ended()
            if status is not None or time.monotonic() > deadline:
                how = f"ended with {status}" if status is not None else "does not answer"
                raise ServiceError(f"{self.name} {how}:\n{self.last_lines()}")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """Return its process id. REQUIRES: it was started."""
        return self._started().pid

    def ended(self) -> str | None:
        """Return how the program has ended; None: it runs."""
        status = self._started().poll()
        if status is None:
            return None
        return f"status {status}" if status >= 0 else signal.Signals(-status).name

    def ask_to_stop(self) -> None:
        """Send the signal that ends the program."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(self.stop_signal)

    def stop(self, seconds: float = 10.0) -> None:
        """End the program; after so many seconds with SIGKILL."""
        if self._process is None:
            return
        self.ask_to_stop()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"{self.name} did not end within {seconds:g} s and was killed; log: {self.log}")
            self._process.kill()
            self._process.wait()

    def last_lines(self, count: int = 10) -> str:
        """Return the end of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-count:])

    def run(self, command: list[str]) -> None:
        """Run another program of the same package to its end. Raises ServiceError if it fails."""
        if self._spawn(command).wait() != 0:
            raise ServiceError(f"{command[0]} failed:\n{self.last_lines()}")

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def _spawn(self, command: list[str]) -> "subprocess.Popen[bytes]":
        def before_exec() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, self.child.on_death)

        as_user = {}
        if self.child.user and os.geteuid() == 0:
            as_user = {"user": self.child.user, "group": self.child.user, "extra_groups": []}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for this program alone
                preexec_fn=before_exec,
                **as_user,
            )
