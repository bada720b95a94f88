"""Prometheus, with the targets that prometheus-operator would find by the PodMonitor.

Debian's Prometheus is built without discovery in Kubernetes, so this program finds the pods for it.
"""

import json
import os
import threading
import urllib.parse
import urllib.request

from api import path_of
from objects import NAMESPACE
from prometheus import Prometheus
from service import Service


class Monitoring(Prometheus):
    """Reads the metrics of the pods that the API server has."""

    def __init__(self, folder, free, api, pod_monitor):
        super().__init__(folder, [], None, free)
        self._api = api
        self._selected = pod_monitor["spec"]["selector"]["matchLabels"]
        (self._endpoint,) = pod_monitor["spec"]["podMetricsEndpoints"]
        self._targets = folder / "targets.json"
        self._stopping = threading.Event()

    def start(self):
        """Start Prometheus, and follow the pods."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {"scrape_configs": [{
            "job_name": f"podMonitor/{NAMESPACE}", "scrape_interval": self._endpoint["interval"],
            "file_sd_configs": [{"files": [str(self._targets)]}]}]}
        (self.folder / "prometheus.yml").write_text(json.dumps(config, indent=1))
        self._write({})
        Service.start(self)
        threading.Thread(target=self._follow, daemon=True).start()

    def stop(self, seconds=10.0):
        """End Prometheus."""
        self._stopping.set()
        super().stop(seconds)

    def query(self, expression):
        """Return [(labels, value)] of an expression now."""
        url = f"{self.address()}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = json.load(answer)["data"]["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def _follow(self):
        pods = {}
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in self._selected.items())}
        for event, value in self._api.watch(path_of("Pod", NAMESPACE), self._stopping, **query):
            if event == "LISTED":
                pods = {pod["metadata"]["name"]: pod for pod in value}
            elif event == "DELETED":
                pods.pop(value["metadata"]["name"], None)
            else:
                pods[value["metadata"]["name"]] = value
            self._write(pods)

    def _write(self, pods):
        groups = [
            {"targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
             "labels": {"namespace": NAMESPACE, "pod": name, "container": container["name"]}}
            for name, pod in sorted(pods.items()) if pod["status"].get("podIP")
            and pod["status"]["phase"] not in ("Succeeded", "Failed")
            for container in pod["spec"]["containers"] for port in container["ports"]
            if port["name"] == self._endpoint["port"]]
        text = json.dumps(groups)
        if self._targets.exists() and self._targets.read_text() == text:
            return
        new = self._targets.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self._targets)
