"""A pod on the kubelet's node, from its binding to its end."""

import copy
import dataclasses
import signal
import threading
import time

import container
from api import ApiError, path_of
from cell import NODE_ADDRESS
from network import PodNetwork
from objects import PROBES, later_fields
from pod_status import PodStatus
from probes import Probe

_SHORTEST_GRACE = 2  # seconds between SIGTERM and SIGKILL, as the kubelet gives at least


@dataclasses.dataclass
class PodRecord:
    """The numbers of a pod for the report."""

    name: str
    restarts: int = 0
    ready_after: float | None = None  # seconds from its start
    drain_seconds: float | None = None  # from SIGTERM to its end
    exit_code: int | None = None
    was_killed: bool = False  # by SIGKILL
    liveness_failures: int = 0
    throttled_seconds: float = 0.0
    log: str = ""  # path of the output of its container


class Pod:
    """A thread starts the container, and again if it ends; it stops it when the pod is deleted."""

    def __init__(self, node, value, number):
        """Make the object. `number`: of its address."""
        self.name = value["metadata"]["name"]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._node = node
        self._value = value
        self._number = number
        self._spec = value["spec"]["containers"][0]
        self._later = later_fields(value, self._spec["name"])
        self._event = threading.Condition()  # guards the next ones, and the status
        self._reporting = threading.Lock()  # held while a status is made and sent
        self._deleted_grace = None  # seconds; None: the pod is to run
        self._is_unhealthy = False
        self._status = None
        self._container = None
        self._network = None
        self._probes = []
        self.record = PodRecord(self.name)
        self.process_address = None  # of its metrics, while it runs

    def delete(self, grace):
        """The pod has been deleted; its container may take so many seconds to end."""
        with self._event:
            if self._deleted_grace is None or grace < self._deleted_grace:
                self._deleted_grace = grace
                self._event.notify_all()

    def start(self):
        """Start the thread."""
        self._thread.start()

    def join(self, seconds):
        """Wait for the end of the thread."""
        self._thread.join(seconds)

    def _run(self):
        try:
            self._live()
        except Exception as error:  # the proof must tell what is wrong, whatever it is
            self._node.timeline.say(f"FAULT: pod {self.name}: {error!r}", "fault")
        finally:
            self._end_probes()
            if self._container is not None:
                self._container.kill()
                self.record.throttled_seconds = self._node.limits.throttled_seconds(self.name)
                self._container.remove()
            if self._network is not None:
                self._network.remove()
            self._node.gone(self)

    def _live(self):
        container.check(self._spec)
        self._network = PodNetwork(self._number)
        self._status = PodStatus(self._value, NODE_ADDRESS, self._network.address)
        self._container = container.Container(self._value, self._spec, self._node, self._network)
        self.record.log = str(self._container.log)
        self._report()
        pause = 10.0
        while self._deleted_grace is None:
            self._start()
            self._wait_for_news(None)
            if self._deleted_grace is not None:
                break
            if self._is_unhealthy:
                self._node.timeline.say(f"FAULT: pod {self.name} is not alive: it is killed", "fault")
                self._stop(self._value["spec"]["terminationGracePeriodSeconds"])
            self._has_ended(is_last=False)
            self._wait_for_news(pause)
            pause = min(2 * pause, 300)
        if self._container.exit_code() is None:
            self._stop(self._deleted_grace)
        self._has_ended(is_last=True)
        self._delete_object()

    def _start(self):
        self._is_unhealthy = False
        self._container.start()
        self._began = time.monotonic()
        self._node.timeline.say(f"pod {self.name} starts, {self._network.address}", "start")
        self.process_address = self._network.address
        with self._event:
            self._status.running()
        self._report()
        if "startupProbe" in self._later:
            self._add_probe("startupProbe", self._has_started)
        else:
            self._has_started(True)

    def _has_started(self, is_good):
        """Tell the result of the startup probe."""
        if not is_good:
            if "startupProbe" in self._later:
                self._unhealthy()
            return
        with self._event:
            self._status.started()
        self._end_probes()
        self._add_probe("readinessProbe", self._is_ready)
        self._add_probe("livenessProbe", lambda alive: None if alive else self._unhealthy())
        self._report()

    def _add_probe(self, kind, changed):
        assert kind in PROBES
        if kind in self._later:
            probe = Probe(self._later[kind], self._network.address, changed)
            self._probes.append((kind, probe))
            probe.start()

    def _is_ready(self, is_ready):
        with self._event:
            was_ready = self._status.is_ready()
            self._status.ready(is_ready)
        if is_ready == was_ready:
            return
        if is_ready and self.record.ready_after is None:
            self.record.ready_after = time.monotonic() - self._began
        self._node.timeline.say(f"pod {self.name} is {'' if is_ready else 'not '}ready",
                                "ready" if is_ready else "not ready")
        self._report()

    def _unhealthy(self):
        with self._event:
            self._is_unhealthy = True
            self._event.notify_all()

    def _wait_for_news(self, seconds):
        """Wait until the container has ended, the pod is deleted or unhealthy; or for a time."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._event:
            while self._deleted_grace is None:
                if until is None and (self._is_unhealthy or self._container.exit_code() is not None):
                    return
                if until is not None and time.monotonic() >= until:
                    return
                self._event.wait(0.1)

    def _stop(self, grace):
        """End the container as the kubelet does: preStop, SIGTERM, and SIGKILL when time is up."""
        until = time.monotonic() + grace
        sleep = self._later.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        self._node.timeline.say(f"pod {self.name} is to end: preStop for {min(sleep, grace):g} s", "delete")
        if not self._container.wait(min(sleep, grace)):
            self._node.timeline.say(f"pod {self.name} gets SIGTERM", "SIGTERM")
            terminated = time.monotonic()
            self._container.signal(signal.SIGTERM)
            left = max(_SHORTEST_GRACE, until - time.monotonic())
            self.record.was_killed = not self._container.wait(left)
            if self.record.was_killed:
                self._node.timeline.say(f"FAULT: pod {self.name} gets SIGKILL", "fault")
                self._container.kill()
            self.record.drain_seconds = time.monotonic() - terminated

    def _has_ended(self, is_last):
        self.process_address = None
        self.record.liveness_failures += sum(probe.failures for kind, probe in self._probes
                                             if kind == "livenessProbe")
        self._end_probes()
        code = self._container.exit_code()
        self.record.exit_code = code
        text = f"pod {self.name} has ended with {code}"
        if not is_last or code != 0:
            self.record.restarts += not is_last
            text = f"FAULT: {text}:\n{self._container.last_lines()}"
        self._node.timeline.say(text, "end" if is_last and code == 0 else "fault")
        with self._event:
            self._status.terminated(code, is_last)
        self._report()

    def _end_probes(self):
        for _, probe in self._probes:
            probe.end()
        self._probes = []

    def _report(self):
        """Tell the API server the status. The last report has the last state."""
        with self._reporting:
            with self._event:
                value = {"metadata": {"uid": self._value["metadata"]["uid"]},
                         "status": copy.deepcopy(self._status.value())}
            try:
                self._node.api.merge(self._path() + "/status", value)
            except ApiError as error:
                if error.status not in (404, 409):
                    raise

    def _delete_object(self):
        """Tell the API server that nothing is left of the pod."""
        try:
            self._node.api.delete(self._path(), {
                "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                "preconditions": {"uid": self._value["metadata"]["uid"]}})
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _path(self):
        return path_of("Pod", self._value["metadata"]["namespace"], self.name)
