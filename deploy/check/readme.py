"""The examples in deploy/README.md make objects: those for kustomize on top of an overlay, those for the chart as
its values, those of an object beside the others. The example of another namespace has a check of its own (names.py)."""

import os
import pathlib
import re
import tempfile

import by_hand
import chart
import helm_python
import references
import render
import schemas
import yaml

BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
OF_KUSTOMIZE = {"configMapGenerator", "patches", "replacements", "components"}


def examples(deploy):
    """Yields (heading, example) of the page."""
    for section in (deploy / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        for block in BLOCK.findall(section):
            yield section.partition("\n")[0], yaml.safe_load(block)


def _rendered(deploy, example):
    """The objects that an example makes."""
    if not OF_KUSTOMIZE & example.keys():
        text = chart.rendered(deploy, example)
        return render.objects("\n---\n".join(part for part in text if part.lstrip().startswith(("apiVersion", "---"))))
    with tempfile.TemporaryDirectory() as folder:
        base = deploy / "kubernetes/overlays/cpu"
        example = {**example, "resources": [os.path.relpath(base.resolve(), pathlib.Path(folder).resolve())]}
        pathlib.Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(example), encoding="utf-8")
        return render.objects(render.kustomize_folder(folder))


def check(deploy):
    """Yields the problems."""
    plain = render.objects(render.kustomize(deploy, "cpu"))
    for heading, example in examples(deploy):
        if "namespace" in example:
            continue
        if "kind" in example:  # an object beside those of an overlay
            key = (example["kind"], example["metadata"]["name"])
            for problem in (*schemas.problems(example), *references.problems(deploy, {**plain, key: example})):
                yield f"{heading}: {problem}"
            continue
        try:
            rendered = _rendered(deploy, example)
        except (render.RenderError, helm_python.HelmError) as error:
            yield f"{heading}: {error}"
            continue
        deployment = render.find(rendered, "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        for problem in (*schemas.problems(deployment), *references.names(pod, rendered), *by_hand.restricted(pod)):
            yield f"{heading}: {problem}"
        if deployment == render.find(plain, "Deployment"):
            yield f"{heading}: the example changes nothing of the Deployment"
        for key, value in rendered.items():
            if value["metadata"].get("namespace") != render.NAMESPACE:
                yield f"{heading}: {key[0]} {key[1]} has no namespace"
