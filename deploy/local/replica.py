"""A longstream-server of the fleet."""

import dataclasses
import pathlib

import ports
from service import Service

_CONFIG = """\
listen: 127.0.0.1:{port}
metrics_listen: 127.0.0.1:{metrics_port}
grace: {grace}s
drain_timeout: {drain_timeout}s
store:
  url: {store}
  segments: {segments}
fleet:
  replica_id: {name}
  peer_listen: 127.0.0.1:{peer_port}
  client_address: 127.0.0.1:{port}
models:
"""
_MODEL = "- {{name: {name}, directory: {directory}, device: cpu}}\n"


@dataclasses.dataclass(frozen=True)
class ReplicaOptions:
    """What all replicas have in common. Times are in seconds."""

    server: pathlib.Path
    models: dict[str, pathlib.Path]
    store: str
    segments: pathlib.Path
    grace: int
    drain_timeout: int


class Replica(Service):
    """A replica, which keeps its ports when it is started again."""

    def __init__(self, name: str, folder: pathlib.Path, options: ReplicaOptions,
                 free: ports.Ports, number: int) -> None:
        """Make the object. `number`: of the replica; its ports follow from it, if they are free."""
        super().__init__(name, folder)
        self._options = options
        self.port = free.take(50060 + number)
        self.metrics_port = free.take(9470 + number)
        self.peer_port = free.take(50160 + number)

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        return [str(self._options.server), "--config", str(self._config)]

    def address(self) -> str:
        """Say where it is, for people."""
        return f"127.0.0.1:{self.port}, metrics http://127.0.0.1:{self.metrics_port}/metrics"

    def ready(self) -> bool:
        """Whether it listens. Envoy knows when its models are loaded."""
        return ports.answers(self.port)

    def start(self) -> None:
        """Start the server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._options.segments.mkdir(parents=True, exist_ok=True)
        self._config.write_text(self._text())
        super().start()

    @property
    def _config(self) -> pathlib.Path:
        return self.folder / "server.yaml"

    def _text(self) -> str:
        options = self._options
        text = _CONFIG.format(
            name=self.name, port=self.port, metrics_port=self.metrics_port,
            peer_port=self.peer_port, grace=options.grace, drain_timeout=options.drain_timeout,
            store=options.store, segments=options.segments)
        return text + "".join(_MODEL.format(name=name, directory=directory)
                              for name, directory in options.models.items())
