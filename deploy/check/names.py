"""An overlay on top of ours may change the namespace and the names: the one in deploy/README.md does, and
its objects still name each other."""

import os
import pathlib
import re
import tempfile

import references
import render
import yaml


def _documented(deploy):
    """The kustomization of deploy/README.md."""
    text = (deploy / "README.md").read_text(encoding="utf-8")
    return yaml.safe_load(re.search(r"^## Other names$.*?^```yaml\n(.*?)^```", text,
                                    re.MULTILINE | re.DOTALL).group(1))


def _overlay(deploy, overlay):
    """The objects of the documented overlay, with this one as its base."""
    kustomization = _documented(deploy)
    if overlay not in kustomization["resources"][0]:
        del kustomization["replacements"]  # they are for KEDA
    with tempfile.TemporaryDirectory() as folder:
        base = deploy / "kubernetes/overlays" / overlay
        kustomization["resources"] = [os.path.relpath(base.resolve(), pathlib.Path(folder).resolve())]
        pathlib.Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(kustomization),
                                                              encoding="utf-8")
        return render.objects(render.kustomize_folder(folder))


def check(deploy):
    """Yields the problems of the overlays that have all kinds of objects."""
    for overlay in ("ab", "gpu"):
        rendered = _overlay(deploy, overlay)
        pod = render.find(rendered, "Deployment")["spec"]["template"]["spec"]
        ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
        for problem in (*references.names(pod, rendered), *references.numbers(ports, rendered),
                        *references.scaler_namespaces(rendered)):
            yield f"{overlay} with other names: {problem}"
