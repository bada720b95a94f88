"""A stand-in for the kubelet: a node, whose pods are processes of this machine (docs/kube-proof.md)."""

import os
import threading
import time

from api import ApiError, path_of
from cell import NODE_ADDRESS
from certificates import NODE
from pod import Pod
from pod_status import timestamp

_LEASES = "kube-node-lease"
_HEARTBEAT = 10  # seconds


class Kubelet:
    """The node, and its pods.

    api: the API server, as the node's user. folder, image: paths. hosts: {name: address} for pods.
    """

    def __init__(self, api, folder, image, limits, hosts, timeline):
        self.api = api
        self.folder = folder
        self.image = image
        self.limits = limits
        self.hosts = hosts
        self.timeline = timeline
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards the next ones
        self._pods = {}  # by uid
        self._numbers = list(range(2, 250))
        self._records = []
        self._threads = []

    def start(self):
        """Register the node, and follow the pods that are bound to it."""
        self.api.post(path_of("Node"), {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE,
                                                  "kubernetes.io/os": "linux",
                                                  "topology.kubernetes.io/zone": "here"}},
            "spec": {}})
        self._beat()
        for function in (self._heartbeats, self._follow):
            thread = threading.Thread(target=function, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self):
        """Follow no more, and end all containers at once."""
        self._stopping.set()
        for pod in self.pods():
            pod.delete(0)
        for pod in self.pods():
            pod.join(10)

    def pods(self):
        """Return the pods that are here."""
        with self._lock:
            return list(self._pods.values())

    def records(self):
        """Return the records of all pods that have been here."""
        with self._lock:
            return list(self._records)

    def gone(self, pod):
        """Nothing is left of a pod. Its thread tells it."""
        with self._lock:
            self._pods = {uid: other for uid, other in self._pods.items() if other is not pod}

    def _follow(self):
        query = {"fieldSelector": f"spec.nodeName={NODE}"}
        for event, value in self.api.watch(path_of("Pod"), self._stopping, **query):
            if event == "LISTED":
                listed = {pod["metadata"]["uid"]: pod for pod in value}
                for pod in listed.values():
                    self._see(pod)
                with self._lock:
                    missing = [pod for uid, pod in self._pods.items() if uid not in listed]
                for pod in missing:
                    pod.delete(0)
            elif event == "DELETED":
                with self._lock:
                    pod = self._pods.get(value["metadata"]["uid"])
                if pod:
                    pod.delete(0)
            else:
                self._see(value)

    def _see(self, value):
        metadata = value["metadata"]
        with self._lock:
            pod = self._pods.get(metadata["uid"])
            if pod is None and value["status"].get("phase", "Pending") == "Pending":
                # The oldest number that is free: an address is not used again at once.
                number = self._numbers.pop(0)
                self._numbers.append(number)
                pod = self._pods[metadata["uid"]] = Pod(self, value, number)
                self._records.append(pod.record)
                pod.start()
        if pod is not None and "deletionTimestamp" in metadata:
            pod.delete(metadata["deletionGracePeriodSeconds"])

    def _heartbeats(self):
        while not self._stopping.wait(_HEARTBEAT):
            try:
                self._beat()
            except (OSError, ApiError) as error:
                self.timeline.say(f"FAULT: heartbeat: {error}", "fault")

    def _beat(self):
        """Renew the lease of the node, and tell its status."""
        capacity = {"cpu": str(os.cpu_count()), "memory": "16Gi", "pods": "110"}
        now = timestamp()
        self.api.merge(path_of("Node", name=NODE) + "/status", {"status": {
            "capacity": capacity, "allocatable": capacity,
            "addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Running",
                            "message": "", "lastHeartbeatTime": now}]}})
        micro = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": micro}
        try:
            self.api.merge(path_of("Lease", _LEASES, NODE), {"spec": spec})
        except ApiError as error:
            if error.status != 404:
                raise
            self.api.post(path_of("Lease", _LEASES), {
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": NODE, "namespace": _LEASES}, "spec": spec})
