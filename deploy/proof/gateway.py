"""Envoy in front of the replicas. It follows the Endpoints of the Service, as a gateway does."""

import json
import os
import threading

from api import path_of
from envoy import TEMPLATE, Envoy
from objects import NAME, NAMESPACE
from service import Service, ServiceError

_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
_STATIC = """\
    load_assignment:
      cluster_name: longstream
      endpoints:
      - lb_endpoints: [@REPLICAS@]
"""
# A replica that leaves the Endpoints gets no new calls; its running calls go on.
_DYNAMIC = """\
    type: EDS
    eds_cluster_config: {eds_config: {path_config_source: {path: "@FILE@"}}}
    ignore_health_on_host_removal: true
"""


class Gateway(Envoy):
    """The address for clients."""

    def __init__(self, folder, program, free, api, timeline):
        super().__init__(folder, program, [], free)
        self._api = api
        self._timeline = timeline
        self._file = folder / "endpoints.json"
        self._version = 0
        self._addresses = set()
        self._stopping = threading.Event()

    def start(self):
        """Start Envoy, and follow the Endpoints."""
        text = TEMPLATE.read_text()
        if _STATIC not in text:
            raise ServiceError("deploy/local/envoy.yaml has another load_assignment than expected")
        text = text.replace(_STATIC, _DYNAMIC.replace("@FILE@", str(self._file)))
        for word, value in (("@PORT@", self.port), ("@ADMIN_PORT@", self.admin_port)):
            text = text.replace(word, str(value))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "envoy.yaml").write_text("node: {id: proof, cluster: proof}\n" + text)
        self._write([])
        Service.start(self)
        threading.Thread(target=self._follow, daemon=True).start()

    def ready(self):
        """Whether it has replicas that say that they serve."""
        return bool(self.serving())

    def stop(self, seconds=10.0):
        """End Envoy."""
        self._stopping.set()
        super().stop(seconds)

    def _follow(self):
        query = {"fieldSelector": f"metadata.name={NAME}"}
        for event, value in self._api.watch(path_of("Endpoints", NAMESPACE), self._stopping, **query):
            values = value if event == "LISTED" else [] if event == "DELETED" else [value]
            found = [(address["ip"], port["port"])
                     for endpoints in values for subset in endpoints.get("subsets") or ()
                     for address in subset.get("addresses") or () for port in subset["ports"]
                     if port["name"] == "grpc"]
            if set(found) != self._addresses:
                self._addresses = set(found)
                self._timeline.say("Envoy has the endpoints "
                                   + (", ".join(ip for ip, _ in sorted(found)) or "none"), "endpoints")
                self._write(sorted(found))

    def _write(self, addresses):
        self._version += 1
        endpoints = [{"endpoint": {"address": {"socket_address": {
            "address": ip, "port_value": port}}}} for ip, port in addresses]
        value = {"version_info": str(self._version), "resources": [{
            "@type": _TYPE, "cluster_name": "longstream",
            "endpoints": [{"lb_endpoints": endpoints}]}]}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(value))
        os.replace(new, self._file)
