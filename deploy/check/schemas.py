"""Objects have the fields of their schemas and no others. schemas/README.md says where the schemas
come from."""

import pathlib

import jsonschema
import kubernetes_validate
import pydantic
import render
import yaml
from cloudcoil.models.keda import v1alpha1 as keda
from cloudcoil.models.prometheus_operator import v1 as monitoring

VERSIONS = ("1.30", "1.37")  # the oldest that has preStop.sleep, and the newest that we know
OWN = pathlib.Path(__file__).with_name("schemas")
MODELS = {
    ("monitoring.coreos.com/v1", "PodMonitor"): monitoring.PodMonitor,
    ("monitoring.coreos.com/v1", "PrometheusRule"): monitoring.PrometheusRule,
    ("keda.sh/v1alpha1", "ScaledObject"): keda.ScaledObject,
}
WRITTEN = {
    ("gateway.networking.k8s.io/v1", "GRPCRoute"): "grpcroute.yaml",
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): "httproute.yaml",
    ("inference.networking.k8s.io/v1", "InferencePool"): "inferencepool.yaml",
    ("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy"): "backendtrafficpolicy.yaml",
}


def _lost(path, given, kept):
    """Yields the fields of `given` that the model has not taken."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key not in kept:
                yield f"{path}{key}: there is no such field"
            else:
                yield from _lost(f"{path}{key}.", value, kept[key])
    elif isinstance(given, list) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(given, kept)):
            yield from _lost(f"{path}{index}.", one, other)


def _of_model(model, value):
    try:
        read = model.model_validate(value)
    except pydantic.ValidationError as error:
        yield from (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        return
    kept = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    yield from _lost("spec.", value["spec"], kept["spec"])


def _of_file(name, value):
    """Yields the problems of a value, by a schema of schemas/."""
    schema = yaml.safe_load((OWN / name).read_text(encoding="utf-8"))
    for error in jsonschema.Draft7Validator(schema).iter_errors(value):
        yield f"{error.json_path}: {error.message}"


def problems(value):
    """Yields the problems of one object."""
    key = (value["apiVersion"], value["kind"])
    if key in MODELS:
        yield from _of_model(MODELS[key], value)
    elif key in WRITTEN:
        yield from _of_file(WRITTEN[key], value)
    else:
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(value, version, strict=True)
            except kubernetes_validate.SchemaNotFoundError as error:
                yield error.message
            except kubernetes_validate.ValidationError as error:
                yield f"{error.json_path}: {error.message} (Kubernetes {version})"


def _values_of_others(deploy):
    """Yields the problems of the values for charts of other programs."""
    components = deploy / "kubernetes/components"
    adapter = yaml.safe_load(
        (components / "hpa/prometheus-adapter.yaml").read_text(encoding="utf-8"))
    yield from (f"prometheus-adapter.yaml: {problem}"
                for problem in _of_file("prometheus-adapter.yaml", adapter))
    found = list(_of_file("llm-d-router.yaml", render.router(deploy)))
    if not found:
        config = render.picker(render.router(deploy))
        found = [*_of_file("endpointpickerconfig.yaml", config), *_unknown_plugins(config)]
    yield from (f"llm-d-router.yaml: {problem}" for problem in found)


def _unknown_plugins(config):
    """Yields the plugins that the picker's configuration names and does not define."""
    defined = {plugin.get("name", plugin.get("type")) for plugin in config.get("plugins", ())}
    named = set()

    def walk(value):
        if isinstance(value, dict):
            if "pluginRef" in value:
                named.add(value["pluginRef"])
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                walk(part)

    walk(config)
    yield from (f"there is no plugin {name}" for name in sorted(named - defined))


def check(deploy):
    """Yields the problems of the objects of all overlays, and of values for other charts. The objects
    of our chart are the same (same.py)."""
    yield from _values_of_others(deploy)
    for overlay in render.OVERLAYS:
        for (kind, name), value in render.objects(render.kustomize(deploy, overlay)).items():
            for problem in problems(value):
                yield f"{overlay}: {kind} {name}: {problem}"
