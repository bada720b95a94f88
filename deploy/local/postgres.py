"""PostgreSQL of Debian's package, in a folder of its own, behind a Unix socket."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from service import Child, Service, ServiceError

_LONGEST_SOCKET = 107 - len("/.s.PGSQL.5432")  # bytes of a path, which Linux limits
_CONNECTIONS_OF_A_REPLICA = 16  # a server opens up to 11, and a few for the fleet


class Postgres(Service):
    """The database that the replicas share. Its data stay when it is stopped."""

    stop_signal = signal.SIGINT  # ends the connections of clients, then the server

    def __init__(self, folder: pathlib.Path, replicas: int) -> None:
        """Make the object. `replicas`: how many will connect."""
        super().__init__("postgres", folder)
        self.child = Child(user=_user(), on_death=signal.SIGQUIT)
        self._programs = _programs()
        self._replicas = replicas
        self._data = folder / "data"
        self._sockets = folder
        if len(os.fsencode(folder)) > _LONGEST_SOCKET:
            self._sockets = pathlib.Path(tempfile.mkdtemp(prefix="longstream-"))

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._sockets),
            "unix_socket_permissions": "0700",  # nobody else's, because it asks for no password
            "max_connections": str(20 + _CONNECTIONS_OF_A_REPLICA * self._replicas),
            "shared_buffers": "64MB",
            "jit": "off",
            "log_min_messages": "warning",
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", str(self._data), *flags]

    def address(self) -> str:
        """Say where it is, for people."""
        return f"psql -h {self._sockets} -U longstream longstream"

    def url(self) -> str:
        """Return the URL of the database."""
        host = str(self._sockets).replace("%", "%25").replace("/", "%2F")
        return f"postgresql://longstream@{host}/longstream"

    def ready(self) -> bool:
        """Whether it answers, and no other server of the same folder does."""
        command = [self._program("pg_isready"), "-q", "-h", str(self._sockets)]
        answers = subprocess.run(command, check=False).returncode == 0
        return answers and self._owner() == self.pid

    def _owner(self) -> int | None:
        """Return the process that uses the data; None: there is none."""
        try:
            return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def start(self) -> None:
        """Start PostgreSQL and wait until it answers. The first time, make the database."""
        made = self.folder / "made"  # is there when the database is
        if not made.exists():
            self._make_data()
        super().start()
        self.wait_until_ready()
        if not made.exists():
            self.run([self._program("createdb"), "-h", str(self._sockets), "-U", "longstream",
                      "longstream"])
            made.touch()

    def stop(self, seconds: float = 10.0) -> None:
        """End PostgreSQL, and remove its sockets if they are elsewhere."""
        super().stop(seconds)
        if self._sockets != self.folder:
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _make_data(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        for folder in {self.folder, self._sockets}:
            self._give_away(folder)
        try:
            self.run([self._program("initdb"), "--pgdata", str(self._data), "--username",
                      "longstream", "--encoding", "UTF8", "--locale", "C", "--auth", "trust"])
        except (ServiceError, PermissionError) as error:
            raise ServiceError(
                f"{error}\nPostgreSQL runs as the user {self.child.user or 'that you are'},"
                f" who must be able to use {self.folder}"
            ) from error

    def _give_away(self, folder: pathlib.Path) -> None:
        if self.child.user:
            shutil.chown(folder, self.child.user, self.child.user)

    def _program(self, name: str) -> str:
        return str(self._programs / name)


def _user() -> str | None:
    """Return the user as whom PostgreSQL runs, because it does not run as root; None: this one."""
    return "postgres" if os.geteuid() == 0 else None


def _programs() -> pathlib.Path:
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"),
                   key=lambda path: int(path.parts[-3]))
    if not found:
        raise ServiceError("PostgreSQL is not installed: run tools/install_packages.sh")
    return found[-1].parent
