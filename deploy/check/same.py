"""The chart makes the same objects as kustomize.

Three things differ on purpose. kustomize writes a hash into the name of the ConfigMap of server.yaml,
and the chart into an annotation of the pods: both make new pods for a new file. The chart writes
server.yaml without comments. And it asks Helm to keep the claims when a release is removed."""

import re

import render
import yaml


def _comparable(rendered):
    """Objects without what differs on purpose."""
    text = yaml.dump(list(rendered.values()), Dumper=yaml.CSafeDumper)
    values = yaml.load(re.sub(r"longstream-server-[a-z0-9]{10}\b", "longstream-server", text),
                       yaml.CSafeLoader)
    found = {}
    for value in values:
        if value["kind"] == "Deployment":
            annotations = value["spec"]["template"]["metadata"].pop("annotations", {})
            annotations.pop("checksum/server.yaml", None)
            if annotations:
                value["spec"]["template"]["metadata"]["annotations"] = annotations
        if value["kind"] == "PersistentVolumeClaim":
            annotations = value["metadata"].pop("annotations", {})
            annotations.pop("helm.sh/resource-policy", None)
            if annotations:
                value["metadata"]["annotations"] = annotations
        for key in value.get("data") or {}:
            if key.endswith(".yaml"):
                value["data"][key] = yaml.safe_load(value["data"][key])
            elif key.endswith(".json"):
                value["data"][key] = value["data"][key].strip()
        found[value["kind"], value["metadata"]["name"]] = value
    return found


def _differences(path, one, other):
    """Yields (path, kustomize's value, the chart's value)."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(f"{path}.{key}", one.get(key, "nothing"),
                                    other.get(key, "nothing"))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other)):
            yield from _differences(f"{path}[{index}]", *pair)
    elif one != other:
        yield path, one, other


def check(deploy):
    """Yields the differences of all overlays."""
    for overlay in render.OVERLAYS:
        ours = _comparable(render.objects(render.kustomize(deploy, overlay)))
        charts = _comparable(render.objects(render.chart(deploy, overlay)))
        for kind, name in sorted(ours.keys() ^ charts.keys()):
            side = "the chart" if (kind, name) in ours else "kustomize"
            yield f"{overlay}: {side} does not make {kind} {name}"
        for key in sorted(ours.keys() & charts.keys()):
            for path, one, other in _differences("", ours[key], charts[key]):
                yield (f"{overlay}: {key[0]} {key[1]}: {path.lstrip('.')}: kustomize has {one!r}, "
                       f"the chart {other!r}")
