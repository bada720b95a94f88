"""Prometheus, with the configuration that prometheus-operator would make of the PodMonitor."""

import json
import re
import urllib.parse
import urllib.request

from objects import NAMESPACE
from prometheus import Prometheus
from service import Service


class Monitoring(Prometheus):
    """Reads the metrics of the pods that the API server has."""

    def __init__(self, folder, free, kubeconfig, pod_monitor):
        super().__init__(folder, [], None, free)
        self._kubeconfig = kubeconfig
        self._pod_monitor = pod_monitor

    def start(self):
        """Start Prometheus."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {"scrape_configs": [
            self._job(number, endpoint) for number, endpoint
            in enumerate(self._pod_monitor["spec"]["podMetricsEndpoints"])]}
        (self.folder / "prometheus.yml").write_text(json.dumps(config, indent=1))
        Service.start(self)

    def query(self, expression):
        """Return [(labels, value)] of an expression now."""
        url = f"{self.address()}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = json.load(answer)["data"]["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def _job(self, number, endpoint):
        def keep(source, pattern):
            return {"action": "keep", "source_labels": [f"__meta_kubernetes_pod_{source}"],
                    "regex": pattern}

        def label(name, source):
            return {"target_label": name, "source_labels": [f"__meta_kubernetes_{source}"]}

        selected = [keep("label_" + re.sub(r"\W", "_", name), value) for name, value
                    in self._pod_monitor["spec"]["selector"]["matchLabels"].items()]
        return {
            "job_name": f"podMonitor/{NAMESPACE}/{self._pod_monitor['metadata']['name']}/{number}",
            "scrape_interval": endpoint["interval"],
            "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [NAMESPACE]},
                                       "kubeconfig_file": self._kubeconfig}],
            "relabel_configs": [
                *selected, keep("container_port_name", endpoint["port"]),
                {"action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"],
                 "regex": "(Failed|Succeeded)"},
                label("namespace", "namespace"), label("pod", "pod_name"),
                label("container", "pod_container_name")]}
