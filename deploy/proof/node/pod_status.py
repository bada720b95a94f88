"""The status of a pod, as the kubelet reports it."""

import time


def timestamp():
    """Return the time as objects have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class PodStatus:
    """The state of a pod with one container. Not thread-safe."""

    def __init__(self, pod, host, address):
        container = pod["spec"]["containers"][0]
        self._started_at = timestamp()
        self._host = host
        self._address = address
        self._container = {"name": container["name"], "image": container["image"], "imageID": "",
                           "restartCount": 0, "ready": False, "started": False,
                           "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}}
        self._conditions = {}
        self.phase = "Pending"

    def running(self):
        """The container has been started."""
        self.phase = "Running"
        self._container["state"] = {"running": {"startedAt": timestamp()}}

    def started(self):
        """The startup probe has succeeded."""
        self._container["started"] = True

    def ready(self, is_ready):
        """The readiness probe says so."""
        self._container["ready"] = is_ready

    def is_ready(self):
        """Whether the pod gets calls."""
        return self._container["ready"]

    def terminated(self, exit_code, is_last):
        """The container has ended. `is_last`: it is not started again."""
        container = self._container
        began = container["state"].get("running", {}).get("startedAt", timestamp())
        ended = {"terminated": {"exitCode": exit_code, "startedAt": began, "finishedAt": timestamp(),
                                "reason": "Completed" if exit_code == 0 else "Error"}}
        container.update(ready=False, started=False)
        if is_last:
            container["state"] = ended
            self.phase = "Succeeded" if exit_code == 0 else "Failed"
        else:
            container["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
            container["lastState"] = ended
            container["restartCount"] += 1

    def value(self):
        """Return the status for the API server."""
        ready = "True" if self._container["ready"] else "False"
        conditions = {"Initialized": "True", "PodScheduled": "True", "ContainersReady": ready,
                      "Ready": ready}
        for kind, state in conditions.items():
            if self._conditions.get(kind, {}).get("status") != state:
                self._conditions[kind] = {"type": kind, "status": state,
                                          "lastTransitionTime": timestamp()}
        return {"phase": self.phase, "hostIP": self._host, "podIP": self._address,
                "podIPs": [{"ip": self._address}], "startTime": self._started_at,
                "conditions": list(self._conditions.values()),
                "containerStatuses": [self._container]}
