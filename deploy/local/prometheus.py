"""Prometheus of Debian's package, which reads the metrics of replicas, gateways and Envoy."""

import json
import pathlib
import shutil
import urllib.error
import urllib.request
from collections.abc import Sequence

from envoy import Envoy
from gateway import Gateway
from ports import Ports
from replica import Replica
from service import Service, ServiceError

_TEMPLATE = pathlib.Path(__file__).with_name("prometheus.yml")


class Prometheus(Service):
    """The metrics of the last day."""

    def __init__(self, folder: pathlib.Path, replicas: list[Replica], envoy: Envoy,
                 free: Ports) -> None:
        """Make the object."""
        super().__init__("prometheus", folder)
        program = shutil.which("prometheus")
        if program is None:
            raise ServiceError("Prometheus is not installed: run tools/install_packages.sh fleet")
        self._program = program
        self._replicas = replicas
        self._envoy = envoy
        self.port = free.take(9090)

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        return [self._program, f"--config.file={self.folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.folder / 'data'}", "--storage.tsdb.retention.time=1d",
                f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]

    def address(self) -> str:
        """Say where it is, for people."""
        return f"http://127.0.0.1:{self.port}"

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.address()}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def start(self) -> None:
        """Start Prometheus."""
        replicas = _targets("replica", self._replicas)
        gateways = _targets("gateway", self._envoy.gateways)
        text = _TEMPLATE.read_text().replace("@REPLICAS@", replicas).replace("@GATEWAYS@", gateways)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "prometheus.yml").write_text(
            text.replace("@ENVOY_ADMIN_PORT@", str(self._envoy.admin_port)))
        super().start()


def _targets(label: str, services: Sequence[Replica] | Sequence[Gateway]) -> str:
    return ", ".join(json.dumps({"targets": [f"127.0.0.1:{service.metrics_port}"],
                                 "labels": {label: service.name}}) for service in services)
