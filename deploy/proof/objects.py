"""The objects of deploy/kubernetes, as `kubectl kustomize` makes them, for Kubernetes 1.20."""

import base64
import copy
import json
import pathlib
import subprocess

import yaml

NAMESPACE = NAME = "longstream"
OVERLAY = pathlib.Path(__file__).with_name("overlay")
# This annotation keeps the fields of containers that 1.20 does not know, for the kubelet.
ANNOTATION = "longstream.dev/later-fields"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
# Kinds that need programs which are not here: {kind: what stands in for them}.
LEFT_OUT = {
    "GRPCRoute": "Envoy has the route, and follows the Endpoints of the Service",
    "BackendTrafficPolicy": "Envoy sends all calls of a session to one replica by the same header",
    "PodMonitor": "the configuration of Prometheus is made of it",
    "PrometheusRule": "make kube-check tests the alerts",
}


def render(kubectl):
    """Return the objects of the overlay."""
    result = subprocess.run([kubectl, "kustomize", OVERLAY], capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise RuntimeError(f"kubectl kustomize: {result.stderr.strip()}")
    return [value for value in yaml.safe_load_all(result.stdout) if value]


def find(objects, kind):
    """Return the only object of a kind."""
    (found,) = [value for value in objects if value["kind"] == kind]
    return found


def for_1_20(objects):
    """Return the objects that 1.20 can have, and a line for each rewrite."""
    kept, notes = [], []
    for value in objects:
        value = copy.deepcopy(value)
        kind = value["kind"]
        if kind in LEFT_OUT:
            notes.append(f"{kind}: left out; {LEFT_OUT[kind]}")
            continue
        if kind == "HorizontalPodAutoscaler":
            notes.append("HorizontalPodAutoscaler: autoscaling/v2 is autoscaling/v2beta2")
            value["apiVersion"] = "autoscaling/v2beta2"
        if kind == "PodDisruptionBudget":
            notes.append("PodDisruptionBudget: policy/v1 is policy/v1beta1, without"
                         " unhealthyPodEvictionPolicy")
            value["apiVersion"] = "policy/v1beta1"
            value["spec"].pop("unhealthyPodEvictionPolicy")
        if kind == "Deployment":
            notes.append("Deployment: gRPC probes and preStop.sleep are in an annotation of the pods,"
                         " from which the kubelet reads them; topologySpreadConstraints have no"
                         " matchLabelKeys")
            _move_later_fields(value["spec"]["template"])
            for constraint in value["spec"]["template"]["spec"]["topologySpreadConstraints"]:
                constraint.pop("matchLabelKeys", None)
        kept.append(value)
    return kept, notes


def _move_later_fields(template):
    moved = {}
    for container in template["spec"]["containers"]:
        later = {probe: container.pop(probe) for probe in PROBES if probe in container}
        if "lifecycle" in container:
            later["lifecycle"] = container.pop("lifecycle")
        moved[container["name"]] = later
    annotations = template["metadata"].setdefault("annotations", {})
    annotations[ANNOTATION] = json.dumps(moved)


def later_fields(pod, container):
    """Return the fields of a container that 1.20 does not know."""
    text = pod["metadata"].get("annotations", {}).get(ANNOTATION, "{}")
    return json.loads(text).get(container, {})


def namespace():
    """Return the Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def secret(name, **values):
    """Return a Secret. In the names of values, _ stands for -."""
    data = {key.replace("_", "-"): base64.b64encode(value.encode()).decode()
            for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def volume(name, claim, folder):
    """Return a PersistentVolume that is a folder of this machine, for a claim."""
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "100Gi"}, "accessModes": ["ReadWriteMany"],
                     "persistentVolumeReclaimPolicy": "Retain",
                     "claimRef": {"namespace": NAMESPACE, "name": claim},
                     "hostPath": {"path": str(folder)}}}


def metrics_service(address, port):
    """Return the objects that lead the API of custom metrics to a server outside of the cluster."""
    metadata = {"name": "longstream-metrics", "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata,
         "spec": {"ports": [{"port": 443, "targetPort": port}]}},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata,
         "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": port}]}]},
    ]


def metrics_api(authority):
    """Return the APIService. `authority`: the text of the certificate that signed the server's."""
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1beta1.custom.metrics.k8s.io"},
            "spec": {"group": "custom.metrics.k8s.io", "version": "v1beta1",
                     "groupPriorityMinimum": 100, "versionPriority": 100,
                     "caBundle": base64.b64encode(authority.encode()).decode(),
                     "service": {"name": "longstream-metrics", "namespace": NAMESPACE}}}
