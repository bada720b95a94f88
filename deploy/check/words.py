"""Words that objects share with the sources and pages, such as names of services and of files: each is one
that the other side has."""

import pathlib
import re

import protos
import render
import yaml

CLUSTER = "service/server/cluster/cluster_server.cc"
SIGNALS = "service/load/load_signals.h"
CLIENT = "client/connection.cc"
GATEWAY = "gateway/gateway.cc"
OWN = "access.longstream.dev/"
SPACE = "kubernetes.io/metadata.name"
FLEETS = ("ab", "cpu", "gpu")  # overlays whose policies have all labels of the page


def _found(repository, path, pattern):
    """All matches of a pattern in a source. Raises RenderError if there is none."""
    found = re.findall(pattern, (repository / path).read_text(encoding="utf-8"), re.DOTALL)
    if not found:
        raise render.RenderError(f"{path}: nothing like {pattern}; words.py must look elsewhere")
    return found


def _probes(repository, pod):
    """The kubelet asks for names that the health service has."""
    always = re.findall(r'"(\w+)"', _found(
        repository, CLUSTER, r"for \(const char\* const name : \{([^}]*)\}\) server->health_")[0])
    serving = re.findall(r'"(\w+)"', _found(
        repository, CLUSTER, r"::SetReady\(bool ready\) \{\s*for \(const char\* const name : \{([^}]*)\}")[0])
    for probe, known in (("startupProbe", serving), ("readinessProbe", serving),
                         ("livenessProbe", always)):
        service = pod["containers"][0][probe]["grpc"]["service"]
        if service not in known:
            yield f"{probe}: service {service}, not {' or '.join(known)}"


def _scaler(repository, rendered):
    signals = _found(repository, SIGNALS, r'LoadSignal\{"(\w+)"')
    scaler = render.find(rendered, "ScaledObject")
    for trigger in scaler["spec"]["triggers"] if scaler else ():
        name = trigger["metadata"].get("metricName", signals[0])
        if name not in signals:
            yield f"ScaledObject: metricName {name} is no signal of {SIGNALS}"


def _route(repository, rendered):
    """Clients reach the services of clients, and no others."""
    route = render.find(rendered, "GRPCRoute")
    wanted = {*protos.services(repository, "longstream/v1"), *protos.services(repository, "grpc/health")}
    named = {match["method"]["service"] for rule in route["spec"]["rules"]
             for match in rule["matches"]} if route else wanted
    yield from (f"GRPCRoute: {name} is no service for clients" for name in sorted(named - wanted))
    yield from (f"GRPCRoute: no route to {name}" for name in sorted(wanted - named))


def _paths(repository, rendered):
    """Clients reach all paths of the HTTP API, whose names begin with a version."""
    route = render.find(rendered, "HTTPRoute")
    if not route:
        return
    paths = set(_found(repository, GATEWAY, r'"(/v[0-9]+/[a-z/]+)"'))
    prefixes = [match["path"]["value"] for rule in route["spec"]["rules"] for match in rule["matches"]]
    yield from (f"HTTPRoute: no route to {path}" for path in sorted(paths)
                if not any(path.startswith(f"{prefix}/") for prefix in prefixes))
    yield from (f"HTTPRoute: {prefix} is no path for clients" for prefix in prefixes
                if not any(path.startswith(f"{prefix}/") for path in paths))


def _session_header(repository, deploy, rendered):
    (header,) = set(_found(repository, CLIENT, r'AddMetadata\("(x-[\w-]+)", session'))
    used = [(kind, each["name"]) for (kind, _), policy in rendered.items() if kind == "BackendTrafficPolicy"
            for each in policy["spec"]["loadBalancer"]["consistentHash"].get("headers", ())]
    for plugin in render.picker(render.router(deploy))["plugins"]:
        config = plugin.get("parameters", {}).get("sessionIdConfig", {})
        used += [("llm-d-router.yaml", source["header"]) for source in config.get("sources", ())]
    yield from (f"{where}: header {name}; clients send {header}" for where, name in used if name != header)


def _texts(value):
    """Yields all texts of a value of YAML."""
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


def _files(repository, pod, rendered):
    """Files that server.yaml and the arguments name are mounted; keys of Secrets are in the page."""
    container = pod["containers"][0]
    mounts = {mount["name"]: pathlib.PurePath(mount["mountPath"]) for mount in container["volumeMounts"]}
    (config,) = [volume["projected"] for volume in pod["volumes"] if "projected" in volume]
    files = set()
    page = (repository / "docs/operations.md").read_text(encoding="utf-8")
    for source in config["sources"]:
        if "configMap" in source:
            files.update(rendered["ConfigMap", source["configMap"]["name"]]["data"])
        for item in source.get("secret", {}).get("items", ()):
            files.add(item["path"])
            made = re.search(rf"create secret generic {source['secret']['name']}\b(.*)", page)
            if not made or item["key"] not in re.findall(r"--from-file=([\w-]+)", made.group(1)):
                yield (f"Secret {source['secret']['name']}: docs/operations.md makes none with the key "
                       f"{item['key']}")
    named = [text for text in _texts(yaml.safe_load(render.server_yaml(rendered))) if text.startswith("/")]
    named += [text.partition("=")[2] for text in container["args"] if "=/" in text]
    for text in named:
        path = pathlib.PurePath(text)
        if path.is_relative_to(mounts["config"]):
            if str(path.relative_to(mounts["config"])) not in files:
                yield f"{text} is not mounted: {mounts['config']} has {', '.join(sorted(files))}"
        elif not any(path.is_relative_to(mount) for mount in mounts.values()):
            yield f"{text} is in no volume"


def _peers(policy):
    """Yields (way, selected object, label, value, port), for each label that a rule selects."""
    for way, side, key in (("to", "from", "ingress"), ("from", "to", "egress")):
        for rule in policy["spec"].get(key, ()):
            for peer in rule[side]:
                for kind in ("namespaceSelector", "podSelector"):
                    for label, value in peer.get(kind, {}).get("matchLabels", {}).items():
                        yield from ((way, kind, label, value, str(port["port"])) for port in rule["ports"])


def _network(deploy, rendered, template, needs_all):
    """Labels that policies select are those of the table of deploy/README.md, or of our pods. `needs_all`: all
    rows of the table have a rule, but those of ports that the container does not have."""
    labels = template["metadata"]["labels"]
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    page = (deploy / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Network$.*?(?=^## )", page, re.MULTILINE | re.DOTALL).group()
    rows = re.findall(rf"^\| `{OWN}(\w+)` \| (\w+).*\| (to|from) replicas \| ([\w, ]+) \|$", section,
                      re.MULTILINE)
    documented = {(way, "podSelector" if of == "pods" else "namespaceSelector", OWN + name, "true", port)
                  for name, of, way, its_ports in rows for port in its_ports.split(", ")}
    policies = [value for (kind, _), value in rendered.items() if kind == "NetworkPolicy"]
    selected = {peer for policy in policies for peer in _peers(policy)}
    for way, kind, label, value, port in sorted(selected - documented):
        if label in labels and labels[label] == value:
            continue
        if (label == SPACE and f"`{value}`" in section) or label == "llm-d-router-standalone":
            continue  # references.py compares the picker's
        yield f"NetworkPolicy: {label}: {value}, {way} replicas, port {port}: not in deploy/README.md"
    if needs_all:
        yield from (f"NetworkPolicy: no rule for {label}, {way} replicas, port {port}"
                    for way, _, label, _, port in sorted(documented - selected)
                    if port in ports or way == "from")


def check(deploy):
    """Yields the problems of all overlays."""
    repository = deploy.parent
    for overlay in render.OVERLAYS + render.FURTHER:
        rendered = render.objects(render.kustomize(deploy, overlay))
        template = render.find(rendered, "Deployment")["spec"]["template"]
        pod = template["spec"]
        for problem in (*_probes(repository, pod), *_scaler(repository, rendered),
                        *_route(repository, rendered), *_paths(repository, rendered),
                        *_session_header(repository, deploy, rendered),
                        *_files(repository, pod, rendered),
                        *_network(deploy, rendered, template, overlay in FLEETS)):
            yield f"{overlay}: {problem}"
