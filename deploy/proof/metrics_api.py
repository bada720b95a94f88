"""The API of custom metrics, as prometheus-adapter serves it with our rules: the HPA reads it."""

import http.server
import json
import pathlib
import re
import ssl
import threading
import urllib.parse

import yaml

from api import path_of
from cell import NODE_ADDRESS
from pod_status import timestamp

_RULES = (pathlib.Path(__file__).resolve().parents[1]
          / "kubernetes/components/hpa/prometheus-adapter.yaml")
_GROUP = "custom.metrics.k8s.io/v1beta1"
_PATH = re.compile(rf"/apis/{_GROUP}/namespaces/([^/]+)/pods/\*/([^/]+)")


def rules():
    """Return {metric: its query}, of deploy/kubernetes/components/hpa/prometheus-adapter.yaml."""
    found = yaml.safe_load(_RULES.read_text(encoding="utf-8"))["rules"]["custom"]
    return {rule["name"]["as"]: rule["metricsQuery"] for rule in found}


def expression(query, namespace, pods):
    """Fill in a query, as prometheus-adapter does."""
    matchers = f'namespace="{namespace}",pod=~"{"|".join(pods)}"'
    return query.replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", matchers)


class MetricsApi:
    """A TLS server outside of the cluster, to which the aggregator leads."""

    port = 6444

    def __init__(self, api, prometheus, certificates):
        """Make the object. `api`: lists pods."""
        self._api = api
        self._prometheus = prometheus
        self._rules = rules()
        self.answers = 0  # lists of values that were given
        metrics_api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Answers one request."""

            protocol_version = "HTTP/1.1"

            def do_GET(self):
                """Answer."""
                try:
                    status, value = 200, metrics_api.answer(self.path)
                except LookupError as error:
                    status, value = 404, _status(404, str(error))
                except Exception as error:  # the controller hears of all errors
                    status, value = 500, _status(500, repr(error))
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Log nothing."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path("server.crt"), certificates.path("server.key"))
        # Only the aggregator may ask.
        context.load_verify_locations(certificates.path("front-ca.crt"))
        context.verify_mode = ssl.CERT_REQUIRED
        self._server = http.server.ThreadingHTTPServer((NODE_ADDRESS, self.port), Handler,
                                                       bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.server_bind()
        self._server.server_activate()
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True,
                                                  do_handshake_on_connect=False)

    def start(self):
        """Serve, in threads."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, target):
        """Return the answer to a path. Raises LookupError if there is none."""
        path, _, query = target.partition("?")
        if path.rstrip("/") == f"/apis/{_GROUP}":
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _GROUP,
                    "resources": [{"name": f"pods/{metric}", "singularName": "", "namespaced": True,
                                   "kind": "MetricValueList", "verbs": ["get"]}
                                  for metric in self._rules]}
        match = _PATH.fullmatch(urllib.parse.unquote(path))
        if not match or match.group(2) not in self._rules:
            raise LookupError(f"no metric at {path}")
        namespace, metric = match.groups()
        selector = urllib.parse.parse_qs(query).get("labelSelector", [""])[0]
        pods = self._api.get(path_of("Pod", namespace), labelSelector=selector)["items"]
        names = [pod["metadata"]["name"] for pod in pods]
        values = self._prometheus.query(expression(self._rules[metric], namespace, names))
        self.answers += 1
        return {"kind": "MetricValueList", "apiVersion": _GROUP, "metadata": {},
                "items": [_value(namespace, labels["pod"], metric, value)
                          for labels, value in values]}


def _value(namespace, pod, metric, value):
    return {"describedObject": {"kind": "Pod", "namespace": namespace, "name": pod,
                                "apiVersion": "/v1"},
            "metricName": metric, "timestamp": timestamp(), "value": f"{round(value * 1000)}m"}


def _status(code, message):
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "message": message}
