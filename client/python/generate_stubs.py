"""Generates the stubs of the wire contract, which the package longstream imports as longstream.v1.

Uses grpcio-tools from PyPI if it is installed, otherwise protoc and its plugin for gRPC as Debian
packages them. As a program: generate_stubs.py PROTO_DIR OUTPUT_DIR
"""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

CONTRACT = "longstream/v1/longstream.proto"
# The wire form of the error details that the server sends. It is not google/rpc/status.proto,
# because a process cannot load two files that define google.rpc.Status.
DETAILS = "longstream/v1/error_details.proto"

# Stubs that do not name a version run with those of Debian 12 and later ones.
OLDEST = {"grpcio": "1.51.1", "protobuf": "4.21.12"}
NEEDED = {
    "grpcio": re.compile(r"^GRPC_GENERATED_VERSION = '([\d.]+)'", re.MULTILINE),
    "protobuf": re.compile(r"^# Protobuf Python Version: ([\d.]+)", re.MULTILINE),
}


def compiler() -> list[str]:
    """Return the command line of a protoc with gRPC's plugin for Python."""
    if importlib.util.find_spec("grpc_tools"):
        return [sys.executable, "-m", "grpc_tools.protoc"]
    plugin = shutil.which("grpc_python_plugin")
    if not plugin or not shutil.which("protoc"):
        raise SystemExit(
            "generate_stubs.py: install grpcio-tools, or protoc and grpc_python_plugin"
        )
    return ["protoc", f"--plugin=protoc-gen-grpc_python={plugin}"]


def version(project: pathlib.Path) -> str:
    """Return the version of the whole project, which its CMakeLists.txt names."""
    text = (project / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(Longstream VERSION ([\d.]+)", text)[1]


def generate(protos: pathlib.Path, output: pathlib.Path) -> None:
    """Write the modules of longstream.v1 and their types below `output`."""
    output.mkdir(parents=True, exist_ok=True)
    own = pathlib.Path(__file__).resolve().parent
    subprocess.run(
        [
            *compiler(),
            f"-I{protos}",
            f"-Ilongstream/v1={own}",
            f"--python_out={output}",
            f"--pyi_out={output}",
            f"--grpc_python_out={output}",
            CONTRACT,
            DETAILS,
        ],
        check=True,
    )
    (output / "longstream/v1/__init__.py").write_text(
        f'"""The generated stubs."""\n\nVERSION = "{version(protos.parent)}"\n'
    )


def requirements(output: pathlib.Path) -> list[str]:
    """Return the packages that the stubs below `output` need, with their oldest versions."""
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((output / "longstream/v1").glob("*.py"))
    )
    found = {name: pattern.search(text) for name, pattern in NEEDED.items()}
    return [f"{name}>={match[1] if match else OLDEST[name]}" for name, match in found.items()]


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
