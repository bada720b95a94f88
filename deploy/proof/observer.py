"""Looks at the deployment and at the metrics of its pods once a second."""

import re
import threading
import time
import urllib.error
import urllib.request

from api import ApiError, path_of
from objects import NAME, NAMESPACE

_LINE = re.compile(r"^(longstream_\w+)(\{[^}]*\})? (\S+)$", re.MULTILINE)
_WAITING = "longstream_load_turns_waiting"  # as the HPA reads it
# Counters of the report: {name in the report: (metric, part of its labels)}.
COUNTERS = {
    "sessions taken from living replicas": ("longstream_handovers_total", 'outcome="taken"'),
    "sessions claimed after a lease": ("longstream_claims_total", ""),
    "handovers unanswered": ("longstream_handovers_total", 'outcome="unanswered"'),
    "caches that were not sent": ("longstream_handover_caches_lost_total", 'op="sent"'),
    "caches that did not arrive": ("longstream_handover_caches_lost_total", 'op="received"'),
    "commits fenced": ("longstream_fenced_commits_total", ""),
    "calls with DATA_LOSS": ("longstream_sessions_lost_total", ""),
    "tokens resumed differently": ("longstream_resume_mismatches_total", ""),
    "tokens generated": ("longstream_generated_tokens_total", ""),
    "tokens of histories computed again": ("longstream_recomputed_tokens_total", ""),
    "tokens of histories read from segments": ("longstream_restored_tokens_total", 'from="store"'),
}
_PERIOD = 1.0
_METRICS_PORT = 9464


class Observer:
    """Samples: seconds, replicas wanted and ready, turns that wait and run, by pod."""

    def __init__(self, api, kubelet, timeline):
        self._api = api
        self._kubelet = kubelet
        self._timeline = timeline
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._counters = {}  # {pod: {name: value}}
        self.samples = []
        self.reason = ""  # of the last change of the number of replicas

    def start(self):
        """Begin."""
        self._thread.start()

    def stop(self):
        """End."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def counters(self):
        """Return the sums over all pods, each as it was last seen."""
        return {name: int(sum(of_pod[name] for of_pod in self._counters.values()))
                for name in COUNTERS}

    def _run(self):
        wanted = None
        while not self._stopping.wait(_PERIOD):
            try:
                sample = self._sample()
            except (OSError, ApiError):
                continue
            self.samples.append(sample)
            if sample["wanted"] != wanted:
                if wanted is not None:
                    self._timeline.say(f"the HPA wants {sample['wanted']} replicas, not {wanted}; "
                                       f"{sum(sample['waiting'].values()):.0f} turns wait", "scale")
                wanted = sample["wanted"]

    def _sample(self):
        deployment = self._api.get(path_of("Deployment", NAMESPACE, NAME))
        sample = {"at": time.time(), "wanted": deployment["spec"]["replicas"],
                  "ready": deployment["status"].get("readyReplicas", 0), "waiting": {},
                  "running": {}}
        for pod in self._kubelet.pods():
            address = pod.process_address
            if address is None:
                continue
            try:
                with urllib.request.urlopen(f"http://{address}:{_METRICS_PORT}/metrics",
                                            timeout=2) as answer:
                    values = [match.groups() for match in _LINE.finditer(answer.read().decode())]
            except (OSError, urllib.error.URLError):
                continue
            sample["waiting"][pod.name] = sum(
                float(value) for name, _, value in values if name == _WAITING)
            sample["running"][pod.name] = sum(
                float(value) for name, _, value in values if name == "longstream_requests_running")
            self._counters[pod.name] = {
                key: sum(float(value) for name, labels, value in values
                         if name == metric and part in (labels or ""))
                for key, (metric, part) in COUNTERS.items()}
        return sample
