#!/usr/bin/env python3
"""Checks that all files of an op have the same basename and lie in the room of its kind of
algorithm: kernels/ops/<room>/<op>.h, kernels/reference/<room>/<op>.cc, kernels/cpu/<room>/<op>.cc
and tests/kernels/<room>/<op>_test.cc.

A header declares an op if it contains `using <Op>Function = ...`. Other headers of a room define
types that its ops share. The other files of kernels/cpu are parts that the ops of a room share. The
reference has no such parts, so that each of its sources is the equation of one op. An op with many
cases may have more tests, <op>_<part>_test.cc. Tests of shared parts lie in rooms with other names.
"""

import re
import sys

import source_tree

DECLARES_OP = re.compile(r"^using \w+Function =", re.MULTILINE)


def declarations(root):
    """Returns <room>/<op> of every header that declares an op."""
    ops = root / "kernels/ops"
    return {path.relative_to(ops).with_suffix("").as_posix() for path in ops.glob("*/*.h")
            if DECLARES_OP.search(path.read_text(encoding="utf-8"))}


def missing_counterparts(root, ops):
    for op in sorted(ops):
        for counterpart in (f"kernels/reference/{op}.cc", f"kernels/cpu/{op}.cc",
                            f"tests/kernels/{op}_test.cc"):
            if not (root / counterpart).is_file():
                yield f"kernels/ops/{op}.h: {counterpart} is missing"


def headers_outside_rooms(root):
    for path in sorted((root / "kernels/ops").glob("*.h")):
        if DECLARES_OP.search(path.read_text(encoding="utf-8")):
            yield f"kernels/ops/{path.name}: declares an op outside the rooms"


def sources_without_op(root, ops):
    """Yields sources of the reference or of CUDA, and tests, that lie in an op's room but belong to
    no op. A CUDA source with its own header is a part that ops share, so it is allowed."""
    rooms = {op.partition("/")[0] for op in ops}
    for folder, ending in (("kernels/reference", ".cc"), ("kernels/cuda", ".cu"),
                           ("tests/kernels", "_test.cc")):
        for path in sorted((root / folder).glob(f"*/*{ending}")):
            name = path.relative_to(root / folder).as_posix().removesuffix(ending)
            has_header = any(path.with_suffix(suffix).is_file() for suffix in (".h", ".cuh"))
            of_op = name in ops or folder == "tests/kernels" and name.startswith(
                tuple(f"{op}_" for op in ops))
            if name.partition("/")[0] in rooms and not of_op and not has_header:
                yield f"{path.relative_to(root).as_posix()}: kernels/ops/{name}.h declares no op"


def main():
    root = source_tree.parse_root(__doc__)
    ops = declarations(root)
    problems = [] if ops else ["kernels/ops: no op header found"]
    problems += headers_outside_rooms(root)
    problems += missing_counterparts(root, ops)
    problems += sources_without_op(root, ops)
    return source_tree.report("op names", problems)


if __name__ == "__main__":
    sys.exit(main())
