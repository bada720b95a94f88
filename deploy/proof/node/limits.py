"""Control groups with the limits of pods, of version 1 or 2."""

import os
import pathlib
import re

_BASE = pathlib.Path("/sys/fs/cgroup")
_PERIOD = 100000  # microseconds, as the kubelet's
_UNITS = {"": 1, "m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def number(quantity):
    """Read a quantity, such as 300m or 1Gi."""
    digits, unit = re.fullmatch(r"([\d.]+)(\w*)", str(quantity)).groups()
    return float(digits) * _UNITS[unit]


class Limits:
    """The control groups of all pods of this program."""

    def __init__(self):
        """Find out which version there is."""
        self._name = f"longstream-proof-{os.getpid()}"
        self._is_v2 = (_BASE / "cgroup.controllers").exists()
        self.exist = self._is_v2 or all((_BASE / kind).is_dir() for kind in ("cpu", "memory"))

    def make(self, pod, cpu, memory):
        """Make the groups of a pod. Return the files that take processes into them."""
        quota = max(1000, int(_PERIOD * number(cpu)))
        size = int(number(memory))
        if self._is_v2:
            for folder in (_BASE, self._folder("")):
                folder.mkdir(exist_ok=True)
                (folder / "cgroup.subtree_control").write_text("+cpu +memory")
            return [self._group("", pod, {"cpu.max": f"{quota} {_PERIOD}", "memory.max": size})]
        if not self.exist:
            return []
        return [self._group("cpu", pod, {"cpu.cfs_period_us": _PERIOD, "cpu.cfs_quota_us": quota}),
                self._group("memory", pod, {"memory.limit_in_bytes": size})]

    def remove(self, pod=None):
        """Remove the groups of a pod, or all of them. Their processes must have ended."""
        for kind in ("",) if self._is_v2 else ("cpu", "memory"):
            folder = self._folder(kind)
            for path in [folder / pod] if pod else [*folder.glob("*/"), folder]:
                if path.is_dir():
                    path.rmdir()

    def throttled_seconds(self, pod):
        """Return how long a pod had to wait because of its quota."""
        path = self._folder("" if self._is_v2 else "cpu") / pod / "cpu.stat"
        try:
            values = dict(line.split() for line in path.read_text().splitlines())
        except OSError:
            return 0.0
        return (int(values.get("throttled_usec", 0)) / 1e6
                + int(values.get("throttled_time", 0)) / 1e9)

    def _folder(self, kind):
        return _BASE / kind / self._name

    def _group(self, kind, pod, values):
        folder = self._folder(kind) / pod
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in values.items():
            (folder / name).write_text(str(value))
        return str(folder / "cgroup.procs")
