"""Objects that kustomize and the chart make, as Python values."""

import contextlib
import functools
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import helm_python
import yaml

OVERLAYS = ("ab", "cpu", "dev", "example", "gpu")  # or the absolute path of one elsewhere
FURTHER = ("proof/overlay",)  # paths in deploy/ of overlays that the chart does not make
NAME = NAMESPACE = "longstream"
NAMESPACES = {"example": "assistants"}
BIN = pathlib.Path(sys.executable).parent


class RenderError(Exception):
    """The sources make no objects. The message says why."""


def kustomize_folder(folder):
    """The text that `kubectl kustomize` prints for a folder."""
    result = subprocess.run([BIN / "kubectl", "kustomize", folder], capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise RenderError(f"kustomize {pathlib.Path(folder).name}: {result.stderr.strip()}")
    return result.stdout


@functools.lru_cache(maxsize=None)
def kustomize(deploy, overlay):
    """The text that `kubectl kustomize` prints for an overlay: its name, or its path in deploy/."""
    return kustomize_folder(deploy / (overlay if "/" in overlay else f"kubernetes/overlays/{overlay}"))


def values_of(deploy, overlay):
    """The values for the chart that make an overlay."""
    return yaml.safe_load((deploy / f"helm/values/{overlay}.yaml").read_text(encoding="utf-8"))


@contextlib.contextmanager
def chart_folder(deploy):
    """A copy of the chart without symbolic links: Helm would print a line for each of them."""
    with tempfile.TemporaryDirectory() as folder:
        yield shutil.copytree(deploy / "helm/longstream", pathlib.Path(folder, "longstream"))


def chart(deploy, overlay):
    """The text that `helm template` prints with the values of an overlay."""
    values = values_of(deploy, overlay)
    try:
        with chart_folder(deploy) as folder, helm_python.Chart.load(folder) as loaded:
            loaded.validate_schema(values)
            files = loaded.render(values, name=NAME,
                                  namespace=NAMESPACES.get(overlay, NAMESPACE))
    except helm_python.HelmError as error:
        raise RenderError(f"chart with values/{overlay}.yaml: {error}") from error
    return "\n---\n".join(text for name, text in sorted(files.items()) if name.endswith(".yaml"))


def objects(text):
    """{(kind, name): object} of a text with several documents."""
    found = {}
    for value in yaml.load_all(text, yaml.CSafeLoader):
        if value is None:
            continue
        key = (value["kind"], value["metadata"]["name"])
        if key in found:
            raise RenderError(f"{key[0]} {key[1]} is there twice")
        found[key] = value
    return found


def find(rendered, kind, name=None):
    """The object of a kind; None if there is none."""
    for (its_kind, its_name), value in rendered.items():
        if its_kind == kind and (name is None or re.fullmatch(name, its_name)):
            return value
    return None


def router(deploy):
    """The values for the chart of the endpoint picker."""
    path = deploy / "kubernetes/components/inference-pool/llm-d-router.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def picker(values):
    """The configuration of the endpoint picker in these values."""
    epp = values["router"]["epp"]
    return yaml.safe_load(epp["pluginsCustomConfig"][epp["pluginsConfigFile"]])


def server_yaml(rendered):
    """The text of server.yaml."""
    return find(rendered, "ConfigMap", r"(.*-)?longstream-server(-.*)?")["data"]["server.yaml"]
