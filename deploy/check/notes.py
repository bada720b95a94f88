"""What `helm install` prints names the Secrets and the claim that the release uses."""

import re

import helm_python
import render

NOTES = "longstream/templates/NOTES.txt"


def check(deploy):
    """Yields the problems of the notes, with the values of each overlay and a name that is not ours."""
    for overlay in render.OVERLAYS:
        values = render.values_of(deploy, overlay)
        with render.chart_folder(deploy) as folder, helm_python.Chart.load(folder) as loaded:
            files = loaded.render(values, name="other", namespace="elsewhere")
        notes = files.pop(NOTES)
        rendered = render.objects("\n---\n".join(files.values()))
        pod = render.find(rendered, "Deployment")["spec"]["template"]["spec"]
        (config,) = [volume["projected"] for volume in pod["volumes"] if "projected" in volume]
        secrets = {(source["secret"]["name"], ", ".join(item["key"] for item in source["secret"]["items"]))
                   for source in config["sources"] if "secret" in source}
        told = set(re.findall(r"([\w-]+) \(([\w, -]+)\)", notes))
        for name, keys in sorted(secrets ^ told):
            side = "does not tell" if (name, keys) in secrets else "tells, but no pod uses"
            yield f"{overlay}: NOTES.txt {side} Secret {name} ({keys})"
        claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"]
                  for volume in pod["volumes"] if "persistentVolumeClaim" in volume}
        if re.findall(r"claim ([\w-]+)", notes) != [claims["models"]]:
            yield f"{overlay}: NOTES.txt does not tell the claim {claims['models']}"
        if not re.search(r"\bother in elsewhere\b", notes):
            yield f"{overlay}: NOTES.txt does not tell the release and the namespace"
