"""Calls of the API server."""

import http.client
import json
import ssl
import threading
import time
import urllib.parse

# Kind: (path of its group, plural).
PLURALS = {
    "Namespace": ("/api/v1", "namespaces"),
    "Node": ("/api/v1", "nodes"),
    "PersistentVolume": ("/api/v1", "persistentvolumes"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Pod": ("/api/v1", "pods"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "Service": ("/api/v1", "services"),
    "Endpoints": ("/api/v1", "endpoints"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": ("/apis/policy/v1beta1", "poddisruptionbudgets"),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2beta2", "horizontalpodautoscalers"),
    "APIService": ("/apis/apiregistration.k8s.io/v1", "apiservices"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
}
_OF_CLUSTER = ("Namespace", "Node", "PersistentVolume", "APIService")


class ApiError(Exception):
    """An answer that is not 2xx."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """The API server, for one user. Thread-safe."""

    def __init__(self, port, authority, token):
        self._port = port
        self._tls = ssl.create_default_context(cafile=authority)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._of_thread = threading.local()

    def get(self, path, **query):
        """Read an object or a list."""
        return self._call("GET", _with(path, query))

    def post(self, path, value):
        """Make an object."""
        return self._call("POST", path, value)

    def put(self, path, value):
        """Replace an object."""
        return self._call("PUT", path, value)

    def merge(self, path, value):
        """Change some fields of an object, as a strategic merge."""
        return self._call("PATCH", path, value, "application/strategic-merge-patch+json")

    def delete(self, path, value=None):
        """Delete an object."""
        return self._call("DELETE", path, value)

    def create(self, value):
        """Make an object as given. Raises ApiError if the API server has dropped a field of it."""
        metadata = value["metadata"]
        stored = self.post(path_of(value["kind"], metadata.get("namespace")), value)
        lost = list(dropped(value, stored))
        if lost:
            raise ApiError(200, f"{value['kind']} {metadata['name']}: the API server does not know "
                                + ", ".join(lost))

    def watch(self, path, stopping, **query):
        """Yield (event, object) of a list: first what there is, then what changes; never ends by itself.

        event: LISTED with all objects (again after a gap), ADDED, MODIFIED or DELETED.
        """
        while not stopping.is_set():
            try:
                listed = self.get(path, **query)
                yield "LISTED", listed.get("items") or []
                version = listed["metadata"]["resourceVersion"]
                for event in self._events(path, dict(query, watch="true", resourceVersion=version,
                                                     timeoutSeconds="300"), stopping):
                    if event["type"] == "ERROR":
                        break
                    yield event["type"], event["object"]
            except (OSError, http.client.HTTPException, ApiError, ValueError):
                time.sleep(0.5)

    def _events(self, path, query, stopping):
        connection = self._connect(timeout=5)
        try:
            connection.request("GET", _with(path, query), headers=self._headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, answer.read().decode(errors="replace"))
            kept = b""
            while not stopping.is_set():
                try:
                    piece = answer.read1(65536)
                except TimeoutError:
                    # http.client cannot go on after a time limit: the list is read again.
                    return
                if not piece:
                    return
                *lines, kept = (kept + piece).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        finally:
            connection.close()

    def _connect(self, timeout=10):
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=timeout,
                                           context=self._tls)

    def _call(self, method, path, value=None, kind="application/json"):
        headers = dict(self._headers, Accept="application/json")
        body = None
        if value is not None:
            headers["Content-Type"] = kind
            body = json.dumps(value).encode()
        for is_last in (False, True):
            connection = getattr(self._of_thread, "connection", None) or self._connect()
            self._of_thread.connection = None
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                if is_last:
                    raise
                continue
            self._of_thread.connection = connection
            break
        if not 200 <= answer.status < 300:
            try:
                message = json.loads(text)["message"]
            except (ValueError, KeyError, TypeError):
                message = text.decode(errors="replace")[:500]
            raise ApiError(answer.status, f"{method} {path}: {message}")
        return json.loads(text) if text.strip().startswith(b"{") else text.decode()


def path_of(kind, namespace=None, name=None):
    """Return the path of an object, or of a list."""
    group, plural = PLURALS[kind]
    space = f"/namespaces/{namespace}" if namespace and kind not in _OF_CLUSTER else ""
    return f"{group}{space}/{plural}" + (f"/{name}" if name else "")


def dropped(sent, stored, path=""):
    """Yield the paths of fields that are not stored as they were sent."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            if key not in stored:
                yield f"{path}.{key}"
            else:
                yield from dropped(value, stored[key], f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for number, (one, other) in enumerate(zip(sent, stored)):
            yield from dropped(one, other, f"{path}[{number}]")
    elif sent != stored:
        yield path


def _with(path, query):
    return f"{path}?{urllib.parse.urlencode(query)}" if query else path
