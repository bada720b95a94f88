"""The root of an image, with what deploy/images/Dockerfile.cpu copies."""

import pathlib
import re
import shutil
import subprocess

_ROOT = pathlib.Path(__file__).resolve().parents[3]
_PREFIX = "opt/longstream"
PROGRAM = f"/{_PREFIX}/bin/longstream-server"  # the image's entry point
# Where volumes and files of the kubelet are mounted.
_MOUNT_POINTS = ("proc", "sys", "dev", "tmp", "etc/longstream", "models", "var/cache/longstream")


def make(root, build):
    """Make a folder with the server of a build, its plugins, and all libraries."""
    prefix = root / _PREFIX
    (prefix / "bin").mkdir(parents=True)
    plugins = prefix / "lib/longstream/plugins"
    plugins.mkdir(parents=True)
    shutil.copy2(build / "bin/longstream-server", prefix / "bin")
    for plugin in (build / "plugins").glob("*.cpu.so"):
        shutil.copy2(plugin, plugins)
    subprocess.run([_ROOT / "deploy/images/copy_libraries.sh", prefix, root], check=True)
    # The base image has the C library.
    text = subprocess.run(["ldd", prefix / "bin/longstream-server"], capture_output=True, text=True,
                          check=True).stdout
    for path in re.findall(r"/\S*/(?:ld-linux-x86-64|lib(?:c|m|mvec|resolv))\.so\S*", text):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(pathlib.Path(path).resolve(), target)
    for name in _MOUNT_POINTS:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/hosts").touch()
