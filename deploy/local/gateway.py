"""A longstream-gateway of the fleet: OpenAI's and Anthropic's HTTP API."""

import dataclasses
import pathlib
import urllib.error
import urllib.request

import ports
from service import Service


@dataclasses.dataclass(frozen=True)
class GatewayOptions:
    """What all gateways have in common. server: host:port of the replicas. grace: in seconds."""

    program: pathlib.Path
    server: str
    grace: int


class Gateway(Service):
    """A gateway, which keeps its ports when it is started again."""

    def __init__(self, name: str, folder: pathlib.Path, options: GatewayOptions,
                 free: ports.Ports, number: int) -> None:
        """Make the object. `number`: of the gateway; its ports follow from it, if they are free."""
        super().__init__(name, folder)
        self._options = options
        self.port = free.take(8080 + number)
        self.metrics_port = free.take(9480 + number)

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        return [str(self._options.program), "--server", self._options.server, "--durable",
                "--listen", f"127.0.0.1:{self.port}",
                "--metrics-listen", f"127.0.0.1:{self.metrics_port}",
                "--grace", str(self._options.grace)]

    def address(self) -> str:
        """Say where it is, for people."""
        return f"http://127.0.0.1:{self.port}, metrics http://127.0.0.1:{self.metrics_port}/metrics"

    def ready(self) -> bool:
        """Whether it answers, and reaches a replica that serves."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health",
                                        timeout=2) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False
