"""Objects fit together: the objects and ports that one names exist in another, and times add up."""

import re

import render
import yaml

ROUTES = {"GRPCRoute": "grpc", "HTTPRoute": "http"}  # {kind: the port of the container that it leads to}
QUERIED = re.compile(r'namespace="([^"]*)"')  # in PromQL
# The chart derives terminationGracePeriodSeconds; the last number of its sum are the seconds after
# preStop, grace and drain_timeout. kustomize cannot add, so its numbers are checked here.
LAST_WRITES = re.compile(r"add \.Values\.preStopSeconds \$grace \$drain (\d+)")


def seconds(text):
    """Reads a duration of server.yaml, in whole seconds. None if it is something else."""
    match = re.fullmatch(r"(\d+)s", str(text))
    return int(match.group(1)) if match else None


def last_writes(deploy):
    """The seconds for the last writes and connections, of the chart."""
    path = deploy / "helm/longstream/templates/_names.tpl"
    found = LAST_WRITES.search(path.read_text(encoding="utf-8"))
    if not found:
        raise render.RenderError(f"{path.name}: no sum of the times, as references.py looks for it")
    return int(found.group(1))


def _times(pod, server, last):
    for key in ("grace", "drain_timeout"):
        if seconds(server.get(key)) is None:
            yield f"server.yaml: {key} is {server.get(key)}; expected whole seconds, such as 30s"
            return
    wanted = (pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
              + seconds(server["grace"]) + seconds(server["drain_timeout"]) + last)
    if pod["terminationGracePeriodSeconds"] != wanted:
        yield (f"terminationGracePeriodSeconds is {pod['terminationGracePeriodSeconds']}; preStop, "
               f"grace, drain_timeout and {last} s make {wanted}")


def _database(server, rendered):
    """A policy lets replicas reach the ports in the URL of PostgreSQL."""
    url = (server.get("store") or {}).get("url", "")
    if not url.startswith("postgres"):
        return
    hosts = url.split("://")[1].split("/")[0].split("@")[-1].split(",")
    wanted = {int(match.group(1)) if (match := re.search(r":(\d+)$", host)) else 5432 for host in hosts}
    open_ports = {port["port"] for (kind, _), value in rendered.items() if kind == "NetworkPolicy"
                  for rule in value["spec"].get("egress", ()) for port in rule["ports"]}
    for port in sorted(wanted - open_ports):
        yield f"store.url has the port {port}; no NetworkPolicy lets replicas reach it"


def _startup(deployment):
    spec = deployment["spec"]
    probe = spec["template"]["spec"]["containers"][0]["startupProbe"]
    longest = probe["periodSeconds"] * probe["failureThreshold"]
    if spec["progressDeadlineSeconds"] <= longest:
        yield (f"progressDeadlineSeconds is {spec['progressDeadlineSeconds']}; startupProbe gives a "
               f"replica {longest} s")


def _http(server, ports):
    """The HTTP port is open in server.yaml and in the container, or in neither."""
    listen, port = (server.get("http") or {}).get("listen") or "", ports.get("http")
    if listen and not port:
        yield f"server.yaml: http.listen is {listen}; the container has no port http (component http)"
    elif port and not listen:
        yield f"server.yaml: no http.listen, but the container has the port http {port}"
    elif port and listen not in (f"0.0.0.0:{port}", f"[::]:{port}"):
        yield f"server.yaml: http.listen is {listen}; clients reach all addresses of the pod, at port {port}"


def _ports(pod, server, rendered):
    container = pod["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for key, name in (("listen", "grpc"), ("metrics_listen", "metrics"), ("cluster", "cluster")):
        value = server[key]["listen"] if key == "cluster" else server[key]
        if not value.endswith(f":{ports.get(name)}"):
            yield f"server.yaml: {key} is {value}; the port {name} of the container {ports.get(name)}"
    yield from _http(server, ports)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if container[probe]["grpc"]["port"] != ports["cluster"]:
            yield f"{probe}: not the port {ports['cluster']}"
    for argument in container["args"]:
        for flag, name in (("--peer-listen=", "peers"), ("--client-address=", "grpc")):
            if argument.startswith(flag) and not argument.endswith(f":{ports.get(name)}"):
                yield f"argument {argument}: not the port {ports.get(name)}"
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
    yield from numbers(ports, rendered)


def numbers(ports, rendered):
    """Yields the numbers of ports that are not those of the container."""
    for (kind, name), value in rendered.items():
        if kind == "Service":
            yield from (f"Service {name}: port {port['name']} is {port['port']}"
                        for port in value["spec"]["ports"]
                        if port["port"] != ports.get(port["targetPort"]))
        elif kind == "NetworkPolicy":
            # Rules of egress name no ports, because their pods may be others.
            numbers = [port["port"] for rule in value["spec"].get("egress", ())
                       if any("podSelector" in to for to in rule["to"]) for port in rule["ports"]]
            yield from (f"NetworkPolicy {name}: no replica has the port {number}"
                        for number in numbers if number not in ports.values())
        elif kind == "InferencePool":
            yield from (f"InferencePool {name}: not the port {ports['grpc']}"
                        for port in value["spec"]["targetPorts"] if port["number"] != ports["grpc"])
        elif kind in ROUTES:
            wanted = ports.get(ROUTES[kind])
            yield from (f"{kind} {name}: not the port {wanted}"
                        for backend in value["spec"]["rules"][0]["backendRefs"]
                        if backend.get("port", wanted) != wanted)
        elif kind == "ScaledObject":
            for trigger in value["spec"]["triggers"]:
                address = trigger["metadata"].get("scalerAddress")
                if address and not (address.endswith(f":{ports['cluster']}")
                                    and ("Service", address.split(".")[0]) in rendered):
                    yield f"ScaledObject {name}: {address} is no Service and port {ports['cluster']}"


def _picker(values, template, rendered):
    """The values for the chart of the endpoint picker fit the pool, if there is one."""
    pool = render.find(rendered, "InferencePool")
    if not pool:
        return
    router, labels = values["router"], template["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    if not router["modelServers"]["matchLabels"].items() <= labels.items():
        yield "llm-d-router.yaml: matchLabels do not select the pods"
    if router["modelServers"]["targetPorts"] != pool["spec"]["targetPorts"]:
        yield "llm-d-router.yaml: targetPorts are not those of the pool"
    for plugin in render.picker(values)["plugins"]:
        port = plugin.get("parameters", {}).get("port", ports["metrics"])
        if port != ports["metrics"]:
            yield f"llm-d-router.yaml: {plugin['type']} reads port {port}, not {ports['metrics']}"
    policy = render.find(rendered, "NetworkPolicy", r"(.*-)?longstream-endpoint-picker(-.*)?")
    selector = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    if list(selector.values()) != [pool["spec"]["endpointPickerRef"]["name"]]:
        yield "NetworkPolicy longstream-endpoint-picker: not the picker of the pool"


def _selectors(rendered, labels):
    for (kind, name), value in rendered.items():
        spec = value.get("spec") or {}
        selector = {"Service": spec.get("selector"),
                    "NetworkPolicy": (spec.get("podSelector") or {}).get("matchLabels")}.get(
                        kind, (spec.get("selector") or {}).get("matchLabels")
                        if kind in ("PodDisruptionBudget", "PodMonitor", "InferencePool") else None)
        if selector and not selector.items() <= labels.items():
            yield f"{kind} {name}: its selector does not select the pods"


def _namespaces(rendered):
    """All objects are in one namespace: an object that has none would go to the namespace of kubectl."""
    namespace = render.find(rendered, "Deployment")["metadata"].get("namespace")
    for (kind, name), value in rendered.items():
        its = value["metadata"].get("namespace")
        if its != namespace:
            yield f"{kind} {name}: is in {its or 'no namespace'}, the Deployment in {namespace or 'none'}"


def names(pod, rendered):
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
    for (kind, name), value in rendered.items():
        named = []
        if kind in ROUTES:
            named = [(backend.get("kind", "Service"), backend["name"])
                     for backend in value["spec"]["rules"][0]["backendRefs"]]
        elif kind == "BackendTrafficPolicy":
            named = [(target["kind"], target["name"]) for target in value["spec"]["targetRefs"]]
        yield from (f"{kind} {name}: no {' '.join(wanted)}" for wanted in named if wanted not in rendered)
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        scaler = render.find(rendered, kind)
        if scaler and ("Deployment", scaler["spec"]["scaleTargetRef"]["name"]) not in rendered:
            yield f"{kind}: no Deployment {scaler['spec']['scaleTargetRef']['name']}"


def scaler_namespaces(rendered):
    """Yields the texts of a ScaledObject that ask for the replicas of another namespace."""
    namespace = render.find(rendered, "Deployment")["metadata"].get("namespace")
    scaler = render.find(rendered, "ScaledObject")
    for trigger in scaler["spec"]["triggers"] if scaler else ():
        metadata = trigger["metadata"]
        asked = QUERIED.findall(metadata.get("query", ""))
        if "scalerAddress" in metadata:
            asked.append(metadata["scalerAddress"].split(".")[1])
        for one in asked:
            if one != namespace:
                yield f"ScaledObject: asks for namespace {one}, not {namespace}"


def problems(deploy, rendered):
    """Yields the problems of the objects of an overlay."""
    deployment = render.find(rendered, "Deployment")
    template = deployment["spec"]["template"]
    server = yaml.safe_load(render.server_yaml(rendered))
    pod = template["spec"]
    yield from _times(pod, server, last_writes(deploy))
    yield from _startup(deployment)
    yield from _ports(pod, server, rendered)
    yield from _selectors(rendered, template["metadata"]["labels"])
    yield from names(pod, rendered)
    yield from _namespaces(rendered)
    yield from scaler_namespaces(rendered)
    yield from _database(server, rendered)
    yield from _picker(render.router(deploy), template, rendered)


def check(deploy):
    """Yields the problems of all overlays."""
    for overlay in render.OVERLAYS + render.FURTHER:
        rendered = render.objects(render.kustomize(deploy, overlay))
        yield from (f"{overlay}: {problem}" for problem in problems(deploy, rendered))
