"""Pods that an operator makes by hand fit their schemas, the rule `restricted` of pod security, and the objects
of the overlay cpu."""

import render
import schemas

UNCONFINED = "Unconfined"


def manifests(deploy):
    """Yields (file, object) of kubernetes/by-hand."""
    for path in sorted((deploy / "kubernetes/by-hand").glob("*.yaml")):
        for value in render.objects(path.read_text(encoding="utf-8")).values():
            yield path.name, value


def pod_of(value):
    """The spec of the pods of a Pod, Job or Deployment."""
    return value["spec"] if value["kind"] == "Pod" else value["spec"]["template"]["spec"]


def restricted(pod):
    """Yields what the rule `restricted` of pod security refuses."""
    of_pod = pod.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        own = container.get("securityContext", {})
        if not own.get("runAsNonRoot", of_pod.get("runAsNonRoot")):
            yield f"container {container['name']}: runAsNonRoot is not true"
        if own.get("runAsUser", of_pod.get("runAsUser")) == 0:
            yield f"container {container['name']}: runAsUser is 0"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"container {container['name']}: allowPrivilegeEscalation is not false"
        if own.get("privileged"):
            yield f"container {container['name']}: privileged"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
            yield f"container {container['name']}: keeps capabilities"
        profile = own.get("seccompProfile", of_pod.get("seccompProfile", {})).get("type", UNCONFINED)
        if profile == UNCONFINED:
            yield f"container {container['name']}: no seccompProfile"
    taken = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
             "secret"}
    for volume in pod.get("volumes", ()):
        for kind in sorted(volume.keys() - {"name"} - taken):
            yield f"volume {volume['name']}: {kind} is not allowed"


def _claims(pod, rendered):
    for volume in pod.get("volumes", ()):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim and ("PersistentVolumeClaim", claim) not in rendered:
            yield f"volume {volume['name']}: no claim {claim}"


def _is_no_replica(value, rendered):
    """A Service would lead clients to a pod that has the labels of a replica."""
    template = value if value["kind"] == "Pod" else value["spec"]["template"]
    labels = template.get("metadata", {}).get("labels", {})
    replica = render.find(rendered, "Deployment")["spec"]["selector"]["matchLabels"]
    if replica.items() <= labels.items():
        yield "has the labels of a replica"


def check(deploy):
    """Yields the problems. The pods of all overlays must be restricted too."""
    cpu = render.objects(render.kustomize(deploy, "cpu"))
    for name, value in manifests(deploy):
        pod = pod_of(value)
        for problem in (*schemas.problems(value), *restricted(pod), *_claims(pod, cpu),
                        *_is_no_replica(value, cpu)):
            yield f"{name}: {problem}"
    for overlay in render.OVERLAYS:
        deployment = render.find(render.objects(render.kustomize(deploy, overlay)), "Deployment")
        yield from (f"{overlay}: {problem}" for problem in restricted(pod_of(deployment)))
