"""The volumes of a pod, as folders of this machine."""

import base64
import os

from api import path_of


def lay_out(api, pod, folder):
    """Make the folders. Return {name of the volume: path}."""
    namespace = pod["metadata"]["namespace"]
    made = {}
    for volume in pod["spec"]["volumes"]:
        if "projected" in volume:
            path = folder / "volumes" / volume["name"]
            _project(api, namespace, pod, volume["projected"], path)
        elif "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = api.get(path_of("PersistentVolumeClaim", namespace, name))
            bound = api.get(path_of("PersistentVolume", name=claim["spec"]["volumeName"]))
            path = bound["spec"]["hostPath"]["path"]
        else:
            raise ValueError(f"volume {volume['name']}: of a kind that is not implemented")
        made[volume["name"]] = str(path)
    return made


def _project(api, namespace, pod, projected, path):
    """Write the files of ConfigMaps and Secrets, for the group of the pod."""
    path.mkdir(parents=True)
    group = pod["spec"].get("securityContext", {}).get("fsGroup", 0)
    for source in projected["sources"]:
        ((kind, wanted),) = source.items()
        kind = {"configMap": "ConfigMap", "secret": "Secret"}[kind]
        data = api.get(path_of(kind, namespace, wanted["name"]))["data"]
        for item in wanted.get("items") or [{"key": key, "path": key} for key in data]:
            value = data[item["key"]]
            value = base64.b64decode(value) if kind == "Secret" else value.encode()
            file = path / item["path"]
            file.write_bytes(value)
            os.chown(file, 0, group)
            file.chmod(item.get("mode", projected["defaultMode"]))
    os.chown(path, 0, group)
    path.chmod(0o750)


def mounts(pod, container, made):
    """Return the lines for container.sh."""
    read_only = {volume["name"] for volume in pod["spec"]["volumes"]
                 if volume.get("persistentVolumeClaim", {}).get("readOnly")}
    lines = []
    for mount in container["volumeMounts"]:
        is_read_only = mount.get("readOnly") or mount["name"] in read_only
        lines.append(f"{'ro' if is_read_only else 'rw'} {made[mount['name']]} {mount['mountPath']}")
    return lines
