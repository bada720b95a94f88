#!/usr/bin/env python3
"""Runs a fleet on this machine until Ctrl-C: replicas that share a database, gateways, an Envoy.

`make fleet` builds and installs what it needs, and runs it (docs/local-fleet.md).
"""

import argparse
import os
import pathlib
import signal
import sys
import time

from envoy import Envoy
from folder import FleetFolder
from gateway import Gateway, GatewayOptions
from ports import Ports
from postgres import Postgres
from prometheus import Prometheus
from replica import Replica, ReplicaOptions
from service import Service, ServiceError

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ("dense", "hwfa2", "hypenet")
_GATEWAYS = 2  # one of them may be killed, too
_MARGIN = 5  # seconds that a replica gets beyond the time for its sessions
_PAUSES = (1.0, 2.0, 5.0, 10.0)  # seconds before a service is started again, which ends again
_CALM = 30.0  # seconds after which a service that ran counts as healthy


class Watched:
    """A service, and when it is started again."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.since = time.monotonic()  # of its last start
        self.failures = 0
        self.start_at: float | None = None  # None: it runs, or is not started again

    def check(self, restart: bool) -> str | None:
        """Start the service again if it is time. Return what is new, for people."""
        now = time.monotonic()
        if self.start_at is not None:
            if now < self.start_at:
                return None
            self.start_at, self.since = None, now
            self.service.start()
            return f"{self.service.name} was started again, pid {self.service.pid}"
        status = self.service.ended()
        if status is None or self.failures < 0:
            return None
        text = f"{self.service.name} ended with {status}; log: {self.service.log}"
        if not restart:
            self.failures = -1
            return text
        if now - self.since > _CALM:
            self.failures = 0
        pause = _PAUSES[min(self.failures, len(_PAUSES) - 1)]
        self.failures += 1
        self.start_at = now + pause
        return f"{text}; it is started again in {pause:g} s"


class Fleet:
    """All services of the fleet."""

    def __init__(self, options: argparse.Namespace) -> None:
        server = _program("--build", options.build / "bin/longstream-server")
        self._client = _program("--build", options.build / "bin/longstream")
        gateway = _program("--build", options.build / "bin/longstream-gateway")
        envoy = _program("--envoy", options.envoy)
        self._folder = FleetFolder(options.folder.resolve())
        folder = self._folder.path
        if options.fresh:
            self._folder.clear()
        free = Ports()
        self._restart = not options.no_restart
        self._grace = options.grace
        self._drain_seconds = options.grace + options.drain_timeout
        self.postgres = Postgres(folder / "postgres", options.replicas)
        of_replicas = ReplicaOptions(
            server=server,
            models={name: ROOT / "models/demo" / name for name in MODELS},
            store=self.postgres.url(),
            segments=folder / "segments",
            grace=options.grace,
            drain_timeout=options.drain_timeout,
        )
        self.replicas = [
            Replica(f"replica-{number}", folder / f"replica-{number}", of_replicas, free, number)
            for number in range(1, options.replicas + 1)
        ]
        self.envoy = Envoy(folder / "envoy", envoy, self.replicas, free)
        of_gateways = GatewayOptions(program=gateway, server=f"127.0.0.1:{self.envoy.port}",
                                     grace=options.grace)
        self.gateways = [
            Gateway(f"gateway-{number}", folder / f"gateway-{number}", of_gateways, free, number)
            for number in range(1, _GATEWAYS + 1)
        ]
        self.envoy.gateways = self.gateways
        self.prometheus = Prometheus(folder / "prometheus", self.replicas, self.envoy, free)
        self._serving: set[int] = set()
        self._all: list[Service] = [self.postgres, *self.replicas, self.envoy, *self.gateways,
                                    self.prometheus]

    def start(self) -> None:
        """Start all services, and wait until they answer. Raises ServiceError."""
        self.postgres.start()
        others = (*self.replicas, self.envoy, *self.gateways, self.prometheus)
        for service in others:
            service.start()
        for service in others:
            service.wait_until_ready()
        self._serving = self.envoy.serving()

    def describe(self) -> None:
        """Print what is where, and what to try."""
        width = max(len(service.name) for service in self._all)
        for service in self._all:
            print(f"  {service.name:<{width}}  pid {service.pid:<7} {service.address()}")
        client = f"{self._client} --server 127.0.0.1:{self.envoy.port}"
        first = self.replicas[0]
        print(f"  logs{'':<{width - 4}}  {self.postgres.folder.parent}/*/log\n\n"
              "Try, in another terminal:\n"
              f"  {client} generate -m dense -n 4000 -t 0.6 'def main():'\n"
              f"  curl -N http://127.0.0.1:{self.envoy.http_port}/v1/completions -d '"
              '{"model": "dense", "prompt": "def main():", "stream": true}\'\n'
              f"  {self._client} --server 127.0.0.1:{first.port} sessions    # of {first.name}: "
              f"REPLICA names the owner, unless it is {first.name}\n"
              "  kill -9 PID    # of a replica above, in the middle of it; or kill, which hands its"
              " sessions over\n"
              f"  curl -s '{self.prometheus.address()}/api/v1/query?"
              "query=sum%20by%20(replica,state)%20(longstream_sessions)'\n"
              "Ctrl-C ends the fleet; its sessions are kept for the next time.", flush=True)

    def watch(self) -> None:
        """Show which services end and start until this program is interrupted."""
        watched = [Watched(service) for service in self._all]
        while True:
            for each in watched:
                try:
                    news = each.check(self._restart)
                except (OSError, ServiceError) as error:
                    news = f"{each.service.name}: {error}"
                if news:
                    _say(news)
            self._tell_changes()
            time.sleep(0.2)

    def stop(self) -> None:
        """End all services. Gateways finish their requests; all replicas drain at the same time."""
        for gateway in self.gateways:
            gateway.ask_to_stop()
        for gateway in self.gateways:
            gateway.stop(self._grace + _MARGIN)
        for replica in self.replicas:
            replica.ask_to_stop()
        deadline = time.monotonic() + self._drain_seconds + _MARGIN
        for replica in self.replicas:
            replica.stop(max(0.1, deadline - time.monotonic()))
        for service in (self.envoy, self.prometheus, self.postgres):
            service.stop()

    def _tell_changes(self) -> None:
        serving = self.envoy.serving()
        for service in (*self.replicas, *self.gateways):
            before, now = service.port in self._serving, service.port in serving
            if before != now:
                _say(f"{service.name} {'serves' if now else 'gets no calls'}")
        self._serving = serving


def _program(option: str, path: pathlib.Path) -> pathlib.Path:
    """Return the whole path of a program. Raises ServiceError if there is none."""
    if not os.access(path, os.X_OK) or path.is_dir():
        raise ServiceError(f"{option}: there is no program {path}")
    return path.resolve()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=4, help="1 to 16 (default: 4)")
    parser.add_argument("--no-restart", action="store_true",
                        help="leave a service that has ended as it is")
    parser.add_argument("--fresh", action="store_true", help="forget the sessions of the last time")
    parser.add_argument("--grace", type=int, default=10, metavar="S",
                        help="seconds that running turns get when a replica is stopped (default: 10)")
    parser.add_argument("--drain-timeout", type=int, default=10, metavar="S",
                        help="seconds after that, for handing sessions over (default: 10)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/fleet",
                        help="for all files (default: build/fleet)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="build tree with the programs (default: build/release)")
    parser.add_argument("--envoy", type=pathlib.Path,
                        default=ROOT / "build/venv-services/bin/envoy", help="Envoy's program")
    options = parser.parse_args()
    if not 1 <= options.replicas <= 16:
        parser.error(f"--replicas: expected 1 to 16, found {options.replicas}")
    return options


def main() -> int:
    """Run the fleet. Returns the exit status."""
    options = _options()
    for stops in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell may have ignored them
        signal.signal(stops, signal.default_int_handler)
    try:
        fleet = Fleet(options)
    except ServiceError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    status = 0
    try:
        print(f"Starting PostgreSQL, {options.replicas} replicas, {_GATEWAYS} gateways, Envoy and "
              "Prometheus ...",
              flush=True)
        fleet.start()
        fleet.describe()
        fleet.watch()
    except KeyboardInterrupt:
        print("\nStopping; replicas finish their turns. Ctrl-C again kills everything.", flush=True)
    except (OSError, ServiceError) as error:
        print(f"fleet: {error}", file=sys.stderr)
        status = 1
    try:
        fleet.stop()
    except KeyboardInterrupt:
        return 130  # the services die with this program
    return status


if __name__ == "__main__":
    sys.exit(main())
