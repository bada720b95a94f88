#!/usr/bin/env python3
"""Checks every #include of the project against the table of rooms below.

A room is a folder. For each room, the table lists the other rooms that its files may include, and
the guarded third-party libraries that they may include. The table has no cycles, so a reader can
read each room after the rooms that it includes.
"""

import pathlib
import re
import sys

import source_tree

# The parts of the service that build without gRPC.
SERVICE_WITHOUT_GRPC = " ".join(
    f"service/{part}/**" for part in ("chat", "clock", "compare", "config", "connections", "engine", "errors", "fleet",
                                      "host_memory", "jinja", "load", "metrics", "models", "routing", "scrapes",
                                      "fleet", "grammar", "sealing", "security", "serving", "sessions", "shadow", "tokenizer", "wire"))

# Room -> rooms that it may include besides itself. Every folder of shipped code has its own row. A
# row of the tests also covers the folders below it, and a test may include all shipped code.
ROOMS = {
    "kernels/core": "kernels/core/limits",
    "kernels/core/limits": "",
    "kernels/core/lanes": "kernels/core",
    "kernels/ops": "kernels/core kernels/ops/*",
    "kernels/ops/attention": "kernels/core",
    "kernels/ops/cache": "kernels/core",
    "kernels/ops/elementwise": "kernels/core",
    "kernels/ops/experts": "kernels/core kernels/ops/gemm",
    "kernels/ops/gemm": "kernels/core",
    "kernels/ops/recurrence": "kernels/core",
    "kernels/ops/sampling": "kernels/core",

    "kernels/reference": "kernels/core kernels/ops kernels/ops/*",
    "kernels/reference/attention": "kernels/core kernels/ops/* kernels/reference"
                                   " kernels/reference/cache kernels/reference/sampling",
    "kernels/reference/cache": "kernels/core kernels/ops/* kernels/reference"
                               " kernels/reference/gemm",
    "kernels/reference/elementwise": "kernels/core kernels/ops/* kernels/reference"
                                     " kernels/reference/gemm",
    "kernels/reference/experts": "kernels/core kernels/ops/* kernels/reference"
                                 " kernels/reference/gemm",
    "kernels/reference/gemm": "kernels/core kernels/ops/* kernels/reference",
    "kernels/reference/recurrence": "kernels/core kernels/ops/* kernels/reference",
    "kernels/reference/sampling": "kernels/core kernels/ops/* kernels/reference",

    "kernels/cpu": "kernels/core kernels/cpu/simd kernels/ops kernels/ops/*",
    "kernels/cpu/simd": "kernels/core kernels/core/lanes",
    "kernels/cpu/experts": "kernels/core kernels/cpu kernels/cpu/gemm kernels/cpu/simd"
                           " kernels/ops/*",
    "kernels/cpu/gemm": "kernels/core kernels/core/lanes kernels/cpu kernels/cpu/simd kernels/ops/*",
    "kernels/cpu/attention": "kernels/core kernels/core/lanes kernels/cpu kernels/cpu/gemm"
                             " kernels/cpu/simd kernels/ops/*",
    "kernels/cpu/cache": "kernels/core kernels/cpu kernels/cpu/attention kernels/cpu/simd"
                         " kernels/ops/*",
    "kernels/cpu/elementwise": "kernels/core kernels/cpu kernels/cpu/gemm kernels/cpu/simd"
                               " kernels/ops/*",
    "kernels/cpu/recurrence": "kernels/core kernels/core/lanes kernels/cpu kernels/cpu/gemm"
                              " kernels/cpu/simd kernels/ops/*",
    "kernels/cpu/sampling": "kernels/core kernels/cpu kernels/cpu/simd kernels/ops/*",

    "kernels/cuda": "kernels/core kernels/ops kernels/ops/*",
    "kernels/cuda/primitives": "kernels/core",
    "kernels/cuda/gemm": "kernels/core kernels/cuda kernels/cuda/primitives kernels/ops/*",
    "kernels/cuda/cache": "kernels/core kernels/cuda kernels/cuda/primitives kernels/ops/*",
    "kernels/cuda/attention": "kernels/core kernels/cuda kernels/cuda/cache kernels/cuda/primitives"
                              " kernels/ops/*",
    "kernels/cuda/elementwise": "kernels/core kernels/cuda kernels/cuda/gemm"
                                " kernels/cuda/primitives kernels/ops/*",
    "kernels/cuda/recurrence": "kernels/core kernels/cuda kernels/cuda/cache kernels/cuda/gemm"
                               " kernels/cuda/primitives kernels/ops/*",
    "kernels/cuda/sampling": "kernels/core kernels/cuda kernels/cuda/primitives kernels/ops/*",
    "kernels/cuda/cublaslt": "kernels/core kernels/cuda/gemm kernels/ops/*",
    "kernels/cuda/device": "kernels/core kernels/cuda/cublaslt kernels/cuda/primitives",

    "backends/api": "",
    "backends/errors": "backends/api kernels/core",
    "backends/files": "",
    "backends/spec": "kernels/core kernels/ops/*",
    "backends/checkpoint/gguf": "backends/errors backends/files",
    "backends/checkpoint": "backends/api backends/checkpoint/gguf backends/errors backends/files"
                           " kernels/core",
    "backends/checkpoint/quantised": "backends/checkpoint backends/errors kernels/core",
    "backends/caches": "backends/api backends/errors kernels/core",
    "backends/caches/segments": "backends/api backends/caches backends/errors kernels/core",
    "backends/model/step": "backends/caches backends/errors backends/spec kernels/core kernels/ops"
                           " kernels/ops/*",
    "backends/model/mixers": "backends/caches backends/model/step backends/spec kernels/core"
                             " kernels/ops kernels/ops/*",
    "backends/model/feed_forward": "backends/model/step backends/spec kernels/ops/*",
    "backends/model": "backends/caches backends/model/feed_forward backends/model/mixers"
                      " backends/model/step backends/spec kernels/core kernels/ops kernels/ops/*",
    "backends/packing": "backends/checkpoint backends/errors backends/files backends/model"
                        " backends/spec"
                        " kernels/core kernels/ops kernels/ops/*",
    "backends/architectures/transformer": "backends/checkpoint backends/checkpoint/quantised"
                                          " backends/errors backends/spec",
    "backends/architectures/families": "backends/architectures/transformer backends/checkpoint"
                                       " backends/errors backends/spec",
    "backends/architectures/placement": "backends/architectures/families backends/checkpoint"
                                        " backends/errors backends/spec",
    "backends/architectures/hypenet": "backends/architectures/transformer backends/checkpoint"
                                      " backends/errors backends/spec",
    "backends/runtime": "backends/api backends/caches backends/caches/segments backends/checkpoint backends/checkpoint/quantised"
                        " backends/errors backends/model backends/model/step backends/packing backends/spec"
                        " kernels/core kernels/ops kernels/ops/*",
    # A backend may not include another backend.
    "backends/dense": "backends/architectures/placement backends/runtime",
    "backends/hwfa2": "backends/architectures/placement backends/runtime",
    "backends/hypenet": "backends/architectures/hypenet backends/runtime",
    "backends/minimal": "backends/api kernels/core kernels/ops",

    "service/clock": "",
    "service/errors": "",
    "service/routing": "",
    "service/config/yaml": "",
    "service/config": "service/config/yaml service/routing service/security",
    "service/host_memory": "",
    "service/metrics": "",
    "service/metrics/calls": "",
    "service/sealing": "",
    "service/security": "",
    "service/security/tenants": "service/clock service/config service/errors service/host_memory",
    "service/connections": "service/clock service/metrics",
    "service/connections/streams": "service/connections service/security",
    "service/load": "kernels/core kernels/core/limits service/clock",
    "service/scrapes": "service/clock service/connections service/connections/streams service/metrics service/security",
    "service/tokenizer": "service/tokenizer/text",
    "service/tokenizer/spec": "",
    "service/tokenizer/text": "service/tokenizer/spec",
    "service/tokenizer/models": "service/tokenizer service/tokenizer/spec service/tokenizer/text",
    "service/tokenizer/stream": "service/tokenizer service/tokenizer/text",
    "service/tokenizer/files": "backends/checkpoint/gguf backends/errors service/tokenizer"
                               " service/tokenizer/models service/tokenizer/spec"
                               " service/tokenizer/text",
    "service/grammar": "service/tokenizer",
    "service/grammar/formats": "service/grammar service/tokenizer/text",
    "service/grammar/formats/schema": "service/grammar service/grammar/formats service/tokenizer/text",
    "service/grammar/response": "service/grammar service/grammar/formats service/grammar/formats/schema service/tokenizer",
    "service/wire": "service/tokenizer/text",
    "service/jinja/values": "service/tokenizer/text",
    "service/jinja/builtins": "service/jinja/values service/tokenizer/text",
    "service/jinja/syntax": "service/jinja/builtins service/jinja/values service/tokenizer/text",
    "service/jinja": "service/jinja/*",
    "service/chat": "backends/checkpoint/gguf backends/errors service/host_memory service/jinja service/jinja/* service/tokenizer service/tokenizer/*",
    "service/models": "backends/api kernels/core service/chat service/clock service/config service/errors"
                      " service/grammar/response service/tokenizer service/tokenizer/files",
    "service/sessions": "service/chat service/clock service/host_memory service/models"
                        " service/routing service/security/tenants",
    "service/sessions/store": "service/clock service/sessions",
    "service/sessions/fleet": "service/sessions service/sessions/store",
    "service/fleet": "service/clock service/metrics service/sessions service/sessions/fleet"
                     " service/sessions/store",
    "service/sessions/store/segments": "service/sealing service/sessions service/sessions/store",
    "service/sessions/store/sql": "service/sealing service/sessions service/sessions/store"
                                  " service/sessions/store/segments",
    "service/sessions/store/postgres": "service/clock service/fleet service/sealing service/sessions"
                                       " service/sessions/fleet"
                                       " service/sessions/store service/sessions/store/segments"
                                       " service/sessions/store/sql",
    "service/sessions/store/sqlite": "service/errors service/sealing service/sessions service/sessions/store"
                                     " service/sessions/store/segments service/sessions/store/sql",
    "service/engine/costs": "service/clock",
    "service/engine/policy": "backends/api service/clock service/config service/engine/costs",
    "service/engine/logits": "backends/api service/grammar service/tokenizer",
    "service/engine/turn": "backends/api kernels/core service/chat service/clock"
                           " service/engine/costs service/engine/logits service/engine/policy service/grammar service/host_memory"
                           " service/metrics service/models service/security/tenants service/sessions"
                           " service/tokenizer service/tokenizer/stream",
    "service/engine": "backends/api kernels/core service/clock service/config service/errors"
                      " service/engine/costs service/engine/logits service/engine/policy service/engine/turn"
                      " service/metrics service/models service/security/tenants service/sessions",
    "service/compare": "backends/api service/clock service/engine/logits",
    "service/shadow": "backends/api service/clock service/compare service/engine service/engine/logits"
                      " service/engine/turn service/metrics service/models service/sessions"
                      " service/tokenizer",
    "service/serving/log": "service/chat service/config service/engine/turn service/models service/routing service/sessions"
                           " service/sessions/store service/tokenizer",
    "service/serving/caches": "backends/api service/clock service/engine service/engine/costs service/engine/policy"
                              " service/host_memory service/metrics service/models"
                              " service/sessions service/sessions/store",
    "service/serving/file": "service/engine/turn service/host_memory service/models service/serving/log"
                            " service/sessions service/sessions/store service/tokenizer/text"
                            " service/wire",
    "service/serving/reads": "service/clock service/security/tenants service/sessions service/sessions/store",
    "service/serving/memory": "service/clock service/host_memory service/security/tenants"
                              " service/serving/engines service/sessions",
    "service/serving/routing": "backends/api service/clock service/engine service/models service/routing",
    "service/serving/aliases": "service/config service/metrics service/routing service/serving/routing"
                               " service/sessions",
    "service/serving/engines": "service/clock service/engine service/serving/log service/sessions",
    "service/serving/turns": "service/clock service/engine service/engine/turn service/errors service/host_memory"
                             " service/metrics service/models service/security/tenants"
                             " service/fleet service/serving/log service/sessions service/sessions/store",
    "service/serving/fleet": "service/clock service/engine service/fleet service/models"
                             " service/security/tenants service/serving/caches service/serving/engines"
                             " service/serving/log service/serving/turns service/sessions",
    "service/serving": "kernels/core service/clock service/engine service/engine/turn service/errors"
                       " service/fleet service/serving/fleet service/serving/memory"
                       " service/config service/host_memory service/metrics service/models service/sealing"
                       " service/security/tenants service/serving/aliases service/serving/caches service/serving/file"
                       " service/serving/log service/serving/reads service/serving/engines service/serving/turns service/sessions service/sessions/store"
                       " service/routing",
    # Its classes are in service/serving, but for the operator's, which uses them.
    "service/serving/models": "service/clock service/config service/engine service/errors service/models"
                              " service/serving service/serving/aliases service/serving/engines"
                              " service/serving/log service/serving/routing service/sessions"
                              " service/sessions/store",
    "service/interceptors": "service/sessions",
    "service/server/transport": "service/clock service/connections service/errors service/fleet service/interceptors service/security"
                                " service/metrics service/tokenizer/text"
                                " service/wire",
    "service/server/routing": "service/routing service/tokenizer/text",
    "service/server/admin": "backends/api service/connections service/interceptors service/models"
                            " service/security service/server/routing service/server/transport service/serving"
                            " service/serving/models service/wire service/config",
    "service/server/cluster": "service/clock service/connections service/interceptors service/load"
                              " service/server/standard service/server/transport service/wire",
    "service/server/peer/caches": "service/fleet",
    "service/server/peer": "service/clock service/connections service/fleet service/interceptors service/security"
                           " service/server/peer/caches service/server/transport service/sessions"
                           " service/sessions/fleet service/wire",
    "service/server/relay": "service/server/peer",
    "service/server/standard": "service/security service/server/transport service/wire",
    "service/server/transfer": "service/clock service/server/transport service/serving service/sessions"
                               " service/wire",
    "service/server/compare": "service/clock service/compare service/engine/logits"
                              " service/engine/turn service/errors service/host_memory service/server/transport"
                              " service/serving service/serving/turns service/tokenizer service/tokenizer/text",
    "service/server/history": "service/models service/server/transport service/serving service/serving/log"
                              " service/tokenizer service/tokenizer/text service/wire",
    "service/server/notes": "service/server/routing service/server/transport service/serving service/sessions/store",
    "service/server/formats": "backends/api service/chat service/engine/turn service/grammar service/grammar/response service/models"
                              " service/tokenizer/text",
    "service/server": "service/chat service/clock service/config service/connections service/engine/turn service/fleet"
                      " service/host_memory service/interceptors service/jinja/values service/metrics service/models"
                      " service/security service/security/tenants service/server/compare service/server/formats service/server/history service/server/notes service/server/peer service/server/relay"
                      " service/server/routing service/server/standard service/server/transfer service/server/transport service/serving service/serving/turns"
                      " service/serving/aliases service/sessions"
                      " service/tokenizer service/tokenizer/stream service/tokenizer/text"
                      " service/wire",
    "service/program/http": "client gateway service/config service/connections service/security service/server",
    "service/program": "service/program/http kernels/core service/clock service/config service/connections"
                       " service/fleet service/load service/server/cluster service/server/transport"
                       " service/engine service/interceptors service/metrics service/metrics/calls service/models service/scrapes"
                       " service/sealing service/security service/server"
                       " service/server/admin service/server/peer service/server/transfer service/serving"
                       " service/serving/reads service/shadow"
                       " service/serving/aliases service/serving/models service/serving/routing service/sessions/store"
                       " service/sessions/store/postgres service/sessions/store/sql service/sessions/store/sqlite",

    "client/errors": "",
    "client/json": "",
    "client": "client/errors service/security",
    "client/compare": "client",
    "client/compare/page": "client client/compare",
    "client/compare/command": "client client/commands client/compare client/compare/page",
    "client/plan": "",
    "client/commands": "client client/errors client/json client/plan",
    "client/eval": "client client/commands",
    "client/token": "client client/commands service/security",
    "client/store": "client client/commands service/sealing service/sessions/store service/sessions/store/postgres"
                       " service/sessions/store/sql service/sessions/store/sqlite",

    "gateway/json": "",
    "gateway/conversations": "",
    "gateway/http": "service/clock service/connections service/connections/streams service/metrics service/security",
    "gateway/notes": "client gateway/conversations",
    "gateway/turns": "client client/errors gateway/conversations gateway/notes",
    "gateway/requests": "gateway/json",
    "gateway/answers": "client gateway/http gateway/json gateway/requests gateway/turns",
    "gateway/openai": "client gateway/answers gateway/json gateway/requests",
    "gateway/anthropic": "gateway/answers gateway/http gateway/json gateway/requests",
    "gateway/responses": "client gateway/answers gateway/http gateway/json gateway/notes gateway/requests gateway/turns",
    "gateway/tokens": "gateway/json gateway/openai gateway/requests",
    "gateway/page": "gateway/http",
    "gateway": "client client/errors client/json gateway/answers gateway/anthropic gateway/conversations gateway/http gateway/json"
               " gateway/notes gateway/openai gateway/page gateway/responses gateway/tokens gateway/turns service/clock service/metrics",
    "gateway/program": "client gateway gateway/http service/connections service/metrics service/scrapes service/security",

    "tests": "",
    # These tests build without gRPC.
    "tests/kernels": "kernels/** tests",
    "tests/backends": "backends/** kernels/** tests tests/**",
    "tests/conformance": "backends/** kernels/** tests tests/**",
    "tests/bench": "backends/** kernels/** tests tests/**",
    "tests/bench/handover": "client tests tests/**",
    "tests/bench/batching": "service/** tests tests/**",
    "tests/bench/formats": "service/** tests tests/**",
    "tests/bench/shadow": "kernels/** service/** tests tests/**",
    "tests/bench/routing": "kernels/** service/** tests tests/**",
    "tests/bench/program": "tests",
    "tests/bench/store": "service/** tests tests/**",
    "tests/bench/tenants": "kernels/** service/** tests tests/**",
    "tests/gpu": "kernels/** tests tests/**",
    # The headers in harness/include replace the CUDA headers.
    "tests/simt": "backends/** kernels/** tests tests/**",
    "tests/simt/plugins": "client kernels/core service/** tests tests/**",
    "tests/install": "backends/api",
    "tests/fleet": "service/sessions/** tests tests/**",
    "tests/tools": "",
    "tests/tsan": "",
    "tests/processes": "client service/** tests tests/**",
    # These build without gRPC too, except tests/service/server.
    "tests/service": f"backends/** gateway kernels/** {SERVICE_WITHOUT_GRPC} tests tests/**",
    "tests/service/server": "backends/** kernels/** service/** tests tests/**",
    # Without gRPC: http, json, conversations.
    "tests/gateway": "client client/** gateway/** service/** tests tests/**",
    "tests/client": "client client/** service/** tests tests/**",
    "tests/faults": "client client/errors tests tests/**",
    "tests/chaos": "client client/errors tests tests/**",
    "tests/e2e": "backends/** client client/** kernels/** service/** tests tests/**",
    # This program uses the library of a peer, and is built separately.
    "tools/bench/llama_cpp": "",
}

# The guarded third-party libraries, which only some rooms may include, and their headers.
GUARDED = {
    "grpc": re.compile(r"grpc(pp)?/|.*\.grpc\.pb\.h$"),
    "protobuf": re.compile(r"google/protobuf/|.*\.pb\.h$"),
    "absl": re.compile(r"absl/"),
    "prometheus": re.compile(r"prometheus/"),
    "cuda": re.compile(r"cuda|cub/|cublas|cooperative_groups|nvtx|mma\.h$"),
}

# Pattern of a room -> the guarded libraries that it may include; all matching patterns count.
LIBRARIES = {
    "kernels/cuda/**": "cuda",
    "service/**": "absl",
    "service/program": "absl grpc prometheus protobuf",
    "service/program/http": "prometheus",
    "service/load": "prometheus",
    "service/metrics": "prometheus",
    "service/metrics/calls": "prometheus protobuf",
    "service/interceptors": "grpc",
    "service/scrapes": "prometheus",
    "service/server/**": "grpc protobuf",
    "service/serving/file": "protobuf",  # a session's file has protobuf messages
    "service/serving/log": "protobuf",  # the store's rows hold protobuf messages
    "service/wire": "protobuf",
    "service/tokenizer/files": "protobuf",  # SentencePiece's files are protobuf messages
    "client": "absl grpc protobuf",
    "client/**": "absl grpc protobuf",
    "gateway": "absl grpc prometheus protobuf",
    "gateway/conversations": "absl",
    "gateway/http": "absl",
    "gateway/answers": "absl protobuf",
    "gateway/requests": "protobuf",
    "gateway/anthropic": "absl protobuf",
    "gateway/notes": "absl grpc protobuf",
    "gateway/openai": "absl protobuf",
    "gateway/responses": "absl grpc protobuf",
    "gateway/tokens": "protobuf",
    "gateway/turns": "absl grpc protobuf",
    "gateway/program": "absl prometheus",
    "tests/bench": "cuda",
    "tests/bench/batching": "absl prometheus",
    "tests/bench/formats": "absl",
    "tests/bench/shadow": "absl prometheus",
    "tests/bench/routing": "absl prometheus",
    "tests/bench/program": "absl",
    "tests/bench/store": "absl",
    "tests/bench/tenants": "absl prometheus",
    "tests/gpu": "cuda",
    "tests/simt": "cuda",
    "tests/simt/plugins": "absl grpc protobuf",
    "tests/tsan": "absl",
    "tests/processes": "absl grpc protobuf",
    "tests/service": "absl prometheus protobuf",
    "tests/service/server": "absl grpc prometheus protobuf",
    "tests/gateway": "absl grpc prometheus protobuf",
    "tests/client": "absl grpc protobuf",
    "tests/chaos": "grpc",
    "tests/faults": "grpc",
    "tests/fleet": "absl",
    "tests/e2e": "absl grpc prometheus protobuf",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def matches(room, pattern):
    """Returns whether a pattern matches a room. `a/*` matches the folders in a; `a/**` also matches
    a and all folders below it."""
    if pattern.endswith("/**"):
        return room == pattern[:-3] or room.startswith(pattern[:-2])
    if pattern.endswith("/*"):
        return room.startswith(pattern[:-1]) and "/" not in room[len(pattern) - 1:]
    return room == pattern


def room_of(path):
    """Returns the room of a file, or None if its folder has no row."""
    folder = path.parent.as_posix()
    while folder not in ROOMS:
        if not folder.startswith("tests/"):
            return None
        folder = folder.rpartition("/")[0]
    return folder


def may_include(room, target):
    return room == target or any(matches(target, pattern) for pattern in ROOMS[room].split())


def libraries_of(room):
    allowed = (names.split() for pattern, names in LIBRARIES.items() if matches(room, pattern))
    return {name for names in allowed for name in names}


def check_include(root, includer, target):
    """Returns the problem of one #include, or None if it is allowed."""
    room = room_of(includer)
    for library, pattern in GUARDED.items():
        if pattern.match(target):
            return None if library in libraries_of(room) else f"{room} may not include {library} headers"
    if (root / includer.parent / target).is_file() and not (root / target).is_file():
        return "include project headers by their path from the root"
    if not (root / target.split("/")[0]).is_dir() or "/" not in target:
        return None
    other = room_of(pathlib.Path(target))
    if other is None:
        return f"no room is known for {target}"
    return None if may_include(room, other) else f"{room} may not include {other}"


def check_file(root, path):
    if room_of(path) is None:
        return [f"{path}: no row in the table of rooms for this folder"]
    problems = []
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        match = INCLUDE.match(line)
        problem = match and check_include(root, path, match.group(2))
        if problem:
            problems.append(f"{path}:{number}: {match.group(2)}: {problem}")
    return problems


def cycles():
    """Returns a problem if rooms of shipped code may include each other, directly or through
    others."""
    shipped = [room for room in ROOMS if not room.startswith(("tests", "tools"))]
    reached = {room: {other for other in shipped if other != room and may_include(room, other)}
               for room in shipped}
    for through in shipped:
        for room in shipped:
            if through in reached[room]:
                reached[room] |= reached[through]
    return [f"the table of rooms has a cycle through {room}"
            for room in shipped if room in reached[room]]


def main():
    root = source_tree.parse_root(__doc__)
    problems = cycles()
    for path in source_tree.files(root, source_tree.CXX_SUFFIXES):
        problems += check_file(root, path)
    return source_tree.report("layering", problems)


if __name__ == "__main__":
    sys.exit(main())
