"""The folder of a fleet, which one fleet uses at a time."""

import fcntl
import os
import pathlib
import shutil

from service import ServiceError


class FleetFolder:
    """Keeps other fleets out of the folder until this program ends."""

    def __init__(self, path: pathlib.Path) -> None:
        """Make the folder if need be. Raises ServiceError if another fleet uses it."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            # Services do not inherit it, so the lock ends with this program.
            self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ServiceError(f"--folder: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise ServiceError(
                f"another fleet runs in {path}: end it, or give another folder with --folder"
            ) from error

    def clear(self) -> None:
        """Remove what is in it."""
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
