"""Ports of the loopback for servers that may be started again."""

import socket


class Ports:
    """Gives out ports on which nobody listens, each one once.

    Linux gives ports from 32768 on to connections. So a server that is down could lose such a port;
    ports below that are preferred.
    """

    def __init__(self) -> None:
        self._given: set[int] = set()

    def take(self, wanted: int) -> int:
        """Return the first free port from `wanted` on."""
        for port in range(wanted, 65536):
            if port not in self._given and _is_free(port):
                self._given.add(port)
                return port
        raise OSError(f"no port is free from {wanted} on")


def answers(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return not answers(port)
