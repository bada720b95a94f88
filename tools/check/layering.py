#!/usr/bin/env python3
"""Who may include whom: every #include of the project against the table of layers below."""

import pathlib
import re
import sys

import source_tree

KERNELS = ("kernels/core", "kernels/ops")
LEAVES = ("service/chat", "service/clock", "service/config", "service/metrics", "service/tokenizer")

# Layer (the longest prefix of a file's path counts) -> layers it may include besides itself, and
# the guarded third-party groups it may include. A directory without a row is an error.
LAYERS = {
    "kernels/core": ((), ()),
    "kernels/ops": (("kernels/core",), ()),
    "kernels/reference": (KERNELS, ()),
    "kernels/cpu": (KERNELS, ()),
    "kernels/cuda": (KERNELS, ("cuda",)),
    "backends/api": ((), ()),
    "backends/common": (KERNELS + ("backends/api",), ()),
    # backends/<name>: a backend may not include another one.
    "backends": (KERNELS + ("backends/api", "backends/common"), ()),
    "service/chat": (("service/tokenizer",), ("absl",)),
    "service/clock": ((), ("absl",)),
    "service/config": ((), ("absl",)),
    "service/metrics": ((), ("absl", "prometheus")),
    # SentencePiece's files are protobuf messages.
    "service/tokenizer": ((), ("absl", "protobuf")),
    "service/models": (LEAVES + ("backends/api", "kernels/core"), ("absl",)),
    # A session is what the scheduler runs turns on; it does not know the scheduler.
    "service/sessions": (
        LEAVES + ("backends/api", "kernels/core", "service/models"), ("absl",)),
    "service/engine": (
        LEAVES + ("backends/api", "kernels/core", "service/models", "service/sessions"),
        ("absl",)),
    "service/server": (
        LEAVES + ("service/models", "service/engine", "service/sessions"),
        ("absl", "grpc", "protobuf")),
    "service/main.cc": (("service", "kernels/core"), ("absl", "grpc", "protobuf", "prometheus")),
    "client": ((), ("absl", "grpc", "protobuf")),
    # Tests see what they test and each other; those of kernels and backends build without gRPC.
    "tests": ((), ()),
    "tests/kernels": (("kernels", "tests"), ()),
    # Its include/ stands in for the CUDA headers.
    "tests/simt": (("kernels", "backends", "tests"), ("cuda",)),
    "tests/simt/plugins": (("service", "client", "tests"), ("absl", "grpc", "protobuf")),
    "tests/backends": (("kernels", "backends", "tests"), ()),
    "tests/conformance": (("kernels", "backends", "tests"), ()),
    "tests/install": (("backends/api",), ()),
    "tests/bench": (("kernels", "backends", "tests"), ()),
    "tests/bench/gpu": (("kernels", "backends", "tests"), ("cuda",)),
    "tests/gpu": (("kernels", "tests"), ("cuda",)),
    "tests/tools": ((), ()),
    # A program over the library of a peer, which is built apart.
    "tools/bench/llama_cpp": ((), ()),
    "tests/tsan": ((), ("absl",)),
    "tests/service": (
        ("kernels", "backends", "service", "tests"), ("absl", "grpc", "protobuf", "prometheus")),
    "tests/client": (("client", "service", "tests"), ("absl", "grpc", "protobuf")),
    "tests/e2e": (
        ("kernels", "backends", "service", "client", "tests"),
        ("absl", "grpc", "protobuf", "prometheus")),
}

# Each backend is a layer of its own, so that the row "backends" does not let them mix.
ONE_LAYER_PER_DIRECTORY = ("backends",)

GUARDED = {
    "grpc": re.compile(r"grpc(pp)?/|.*\.grpc\.pb\.h$"),
    "protobuf": re.compile(r"google/protobuf/|.*\.pb\.h$"),
    "absl": re.compile(r"absl/"),
    "prometheus": re.compile(r"prometheus/"),
    "cuda": re.compile(r"cuda|cub/|cublas|cooperative_groups|nvtx|mma\.h$"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def row_of(path):
    """The key in LAYERS of a path relative to the root, or None."""
    for length in range(len(path.parts), 0, -1):
        key = "/".join(path.parts[:length])
        if key in LAYERS:
            return key
    return None


def layer_of(path):
    """The layer a path belongs to: its row, or its directory where each directory is a layer."""
    row = row_of(path)
    if row in ONE_LAYER_PER_DIRECTORY and len(path.parts) > 2:
        return "/".join(path.parts[:2])
    return row


def within(layer, allowed):
    return any(layer == prefix or layer.startswith(prefix + "/") for prefix in allowed)


def check_include(root, includer, target):
    """Returns what is wrong with one #include, or None."""
    layers, groups = LAYERS[row_of(includer)]
    for group, pattern in GUARDED.items():
        if pattern.match(target):
            if group not in groups:
                return f"{layer_of(includer)} may not include {group} headers"
            return None
    if (root / includer.parent / target).is_file() and not (root / target).is_file():
        return "include project headers by their path from the root"
    if not (root / target.split("/")[0]).is_dir() or "/" not in target:
        return None
    layer = layer_of(pathlib.Path(target))
    if layer is None:
        return f"no layer is known for {target}"
    if layer != layer_of(includer) and not within(layer, layers):
        return f"{layer_of(includer)} may not include {layer}"
    return None


def check_file(root, path):
    if row_of(path) is None:
        return [f"{path}: no row in the table of layers for this directory"]
    problems = []
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        match = INCLUDE.match(line)
        problem = match and check_include(root, path, match.group(2))
        if problem:
            problems.append(f"{path}:{number}: {match.group(2)}: {problem}")
    return problems


def main():
    root = source_tree.parse_root(__doc__)
    problems = []
    for path in source_tree.files(root, source_tree.CXX_SUFFIXES):
        problems += check_file(root, path)
    return source_tree.report("layering", problems)


if __name__ == "__main__":
    sys.exit(main())
