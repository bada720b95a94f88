#!/usr/bin/env python3
"""One op, one basename: ops/<op>.h, reference/<op>.cc, cpu/<op>.cc and tests/kernels/<op>_test.cc.

A source may also be a piece of an op, <op>_<piece>.
"""

import sys

import source_tree

# Headers of kernels/ops that declare no op of their own.
NOT_AN_OP = {
}

# Sources that belong to no op: what several ops of one implementation share, or tests of it.
NOT_OF_AN_OP = {
}


def op_names(root):
    headers = {path.stem for path in (root / "kernels/ops").glob("*.h")}
    return headers - set(NOT_AN_OP)


def missing_counterparts(root, ops):
    for op in sorted(ops):
        for counterpart in (f"kernels/reference/{op}.cc", f"kernels/cpu/{op}.cc",
                            f"tests/kernels/{op}_test.cc"):
            if not (root / counterpart).is_file():
                yield f"kernels/ops/{op}.h: {counterpart} is missing"


def sources_without_op(root, ops):
    for pattern in ("kernels/reference/*.cc", "kernels/cpu/*.cc", "tests/kernels/*_test.cc"):
        for path in sorted(root.glob(pattern)):
            relative = path.relative_to(root).as_posix()
            name = path.stem.removesuffix("_test")
            belongs = any(name == op or name.startswith(op + "_") for op in ops)
            if not belongs and relative not in NOT_OF_AN_OP:
                yield f"{relative}: no op of this name in kernels/ops"


def stale_exceptions(root):
    for name in NOT_AN_OP:
        if not (root / f"kernels/ops/{name}.h").is_file():
            yield f"op_names.py: exception kernels/ops/{name}.h does not exist"
    for name in NOT_OF_AN_OP:
        if not (root / name).is_file():
            yield f"op_names.py: exception {name} does not exist"


def main():
    root = source_tree.parse_root(__doc__)
    ops = op_names(root)
    problems = [] if ops else ["kernels/ops: no op header found"]
    problems += missing_counterparts(root, ops)
    problems += sources_without_op(root, ops)
    problems += stale_exceptions(root)
    return source_tree.report("op names", problems)


if __name__ == "__main__":
    sys.exit(main())
