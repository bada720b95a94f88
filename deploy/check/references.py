"""Objects fit together: what one names exists in another, and times add up."""

import re

import render
import yaml

LAST_WRITES = 15  # seconds after preStop, grace and drain_timeout


def seconds(text):
    """Reads a duration of server.yaml, in whole seconds."""
    return int(re.fullmatch(r"(\d+)s", str(text)).group(1))


def _times(pod, server):
    wanted = (pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
              + seconds(server["grace"]) + seconds(server["drain_timeout"]) + LAST_WRITES)
    if pod["terminationGracePeriodSeconds"] != wanted:
        yield (f"terminationGracePeriodSeconds is {pod['terminationGracePeriodSeconds']}; preStop, "
               f"grace, drain_timeout and {LAST_WRITES} s make {wanted}")


def _ports(pod, server, rendered):
    container = pod["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for key, name in (("listen", "grpc"), ("metrics_listen", "metrics"), ("cluster", "cluster")):
        value = server[key]["listen"] if key == "cluster" else server[key]
        if not value.endswith(f":{ports.get(name)}"):
            yield f"server.yaml: {key} is {value}; the port {name} of the container {ports.get(name)}"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if container[probe]["grpc"]["port"] != ports["cluster"]:
            yield f"{probe}: not the port {ports['cluster']}"
    for (kind, name), value in rendered.items():
        named = []
        if kind == "Service":
            named = [port["targetPort"] for port in value["spec"]["ports"]]
        elif kind == "NetworkPolicy":
            named = [port["port"] for rule in value["spec"].get("ingress", ())
                     for port in rule["ports"]]
        elif kind == "PodMonitor":
            named = [point["port"] for point in value["spec"]["podMetricsEndpoints"]]
        for port in named:
            if port not in ports:
                yield f"{kind} {name}: the container has no port {port}"


def _selectors(rendered, labels):
    for (kind, name), value in rendered.items():
        spec = value.get("spec") or {}
        selector = {"Service": spec.get("selector"),
                    "NetworkPolicy": (spec.get("podSelector") or {}).get("matchLabels")}.get(
                        kind, (spec.get("selector") or {}).get("matchLabels")
                        if kind in ("PodDisruptionBudget", "PodMonitor", "InferencePool") else None)
        if selector and not selector.items() <= labels.items():
            yield f"{kind} {name}: its selector does not select the pods"


def _names(pod, rendered):
    """What the pod and the route name, if this tree makes objects of the kind. Secrets are made by
    the operator."""
    for volume in pod["volumes"]:
        claim = volume.get("persistentVolumeClaim")
        if claim and ("PersistentVolumeClaim", claim["claimName"]) not in rendered:
            yield f"volume {volume['name']}: no claim {claim['claimName']}"
        for source in volume.get("projected", {}).get("sources", ()):
            name = source.get("configMap", {}).get("name")
            if name and ("ConfigMap", name) not in rendered:
                yield f"volume {volume['name']}: no ConfigMap {name}"
    mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["volumes"]}
    yield from (f"volume {name}: mounted or defined, not both" for name in mounts ^ volumes)
    if ("ServiceAccount", pod["serviceAccountName"]) not in rendered:
        yield f"no ServiceAccount {pod['serviceAccountName']}"
    route = render.find(rendered, "GRPCRoute")
    for backend in route["spec"]["rules"][0]["backendRefs"] if route else ():
        if (backend.get("kind", "Service"), backend["name"]) not in rendered:
            yield f"GRPCRoute: no {backend.get('kind', 'Service')} {backend['name']}"
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        scaler = render.find(rendered, kind)
        if scaler and ("Deployment", scaler["spec"]["scaleTargetRef"]["name"]) not in rendered:
            yield f"{kind}: no Deployment {scaler['spec']['scaleTargetRef']['name']}"


def check(deploy):
    """Yields the problems of all overlays."""
    for overlay in render.OVERLAYS:
        rendered = render.objects(render.kustomize(deploy, overlay))
        template = render.find(rendered, "Deployment")["spec"]["template"]
        server = yaml.safe_load(render.server_yaml(rendered))
        pod = template["spec"]
        for problem in (*_times(pod, server), *_ports(pod, server, rendered),
                        *_selectors(rendered, template["metadata"]["labels"]),
                        *_names(pod, rendered)):
            yield f"{overlay}: {problem}"
