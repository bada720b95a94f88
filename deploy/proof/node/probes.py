"""The kubelet's probes, over gRPC."""

import threading
import time

import grpc

_SERVING = b"\x08\x01"  # HealthCheckResponse{status: SERVING}
_DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1,
             "successThreshold": 1, "failureThreshold": 3}


def serves(address, service, timeout):
    """Whether grpc.health.v1 says that a service is served. A new connection, as the kubelet's."""
    name = service.encode()
    request = b"\x0a" + bytes([len(name)]) + name if name else b""
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0),
                                                 ("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            return channel.unary_unary("/grpc.health.v1.Health/Check")(
                request, timeout=timeout) == _SERVING
        except grpc.RpcError:
            return False


class Probe(threading.Thread):
    """Asks until it is ended. Calls `changed` with True or False after as many equal answers as the
    threshold says; at first it counts as False."""

    def __init__(self, spec, address, changed):
        super().__init__(daemon=True)
        self._spec = {**_DEFAULTS, **spec}
        self._address = f"{address}:{spec['grpc']['port']}"
        self._changed = changed
        self._ending = threading.Event()
        self.failures = 0  # of all the time

    def run(self):
        """Ask again and again."""
        spec = self._spec
        self._ending.wait(spec["initialDelaySeconds"])
        state, equal, last, told = False, 0, None, False
        while not self._ending.is_set():
            asked = time.monotonic()
            good = serves(self._address, spec["grpc"].get("service", ""), spec["timeoutSeconds"])
            if self._ending.is_set():
                return
            self.failures += not good
            equal = equal + 1 if good == last else 1
            last = good
            if equal >= spec["successThreshold" if good else "failureThreshold"]:
                if good != state or (not good and not told):
                    state, told = good, True
                    self._changed(good)
            self._ending.wait(max(0, spec["periodSeconds"] - (time.monotonic() - asked)))

    def end(self):
        """Ask no more."""
        self._ending.set()
