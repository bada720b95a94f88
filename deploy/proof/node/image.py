"""The root of an image, with what deploy/images/Dockerfile.cpu copies."""

import pathlib
import shutil
import subprocess

_IMAGES = pathlib.Path(__file__).resolve().parents[2] / "images"
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
    subprocess.run([_IMAGES / "copy_libraries.sh", prefix, root], check=True)
    subprocess.run([_IMAGES / "copy_c_library.sh", prefix / "bin/longstream-server", root], check=True)
    for name in _MOUNT_POINTS:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/hosts").touch()
