#!/usr/bin/env python3
"""One op, one basename: ops/<op>.h, reference/<op>.cc, cpu/<op>.cc and tests/kernels/<op>_test.cc.

A header declares an op where it says `using <Op>Function = ...`. A source may also be a piece of
an op, <op>_<piece>.
"""

import re
import sys

import source_tree

DECLARES_OP = re.compile(r"^using \w+Function =", re.MULTILINE)

# Headers of kernels/ops that declare no op of their own: what they are instead.
NOT_AN_OP = {
    "norm": "the argument type of every op that normalises before it projects",
    "op_table": "the table of all ops; a kernel library defines it in its own op_table.cc",
}

# Sources that belong to no header of kernels/ops: why they are there.
NOT_OF_AN_OP = {
    "kernels/cpu/attention/attention_core.cc": "tasks of all attention ops",
    "kernels/cpu/attention/attention_decode.cc": "the decode row of all attention ops",
    "kernels/cpu/attention/attention_decode_blocks.cc": "the arithmetic of a decode row over bf16",
    "kernels/cpu/attention/attention_decode_rows.cc": "where a decode row reads its keys and values",
    "kernels/cpu/attention/attention_decode_widened.cc": "the arithmetic of a decode row over bf16 on AVX2",
    "kernels/cpu/attention/attention_int8_decode.cc": "the arithmetic of a decode row over int8 pages",
    "kernels/cpu/attention/attention_int8_prefill.cc": "the arithmetic of a prefill tile over int8 pages",
    "kernels/cpu/attention/attention_int8_words_decode.cc": "a decode row over int8 pages on AVX2",
    "kernels/cpu/attention/attention_int8_words_prefill.cc": "a prefill tile over int8 pages on AVX2",
    "kernels/cpu/attention/attention_prefill.cc": "the prefill tile of all attention ops",
    "kernels/cpu/gemm/block_product.cc": "products in cache, of attention and recurrence",
    "kernels/cpu/gemm/compressed_product.cc": "the same product for bf16 weights in 12 bits",
    "kernels/cpu/dispatch.cc": "chooses the op table of the processor's instruction set",
    "kernels/cpu/gemm/panel_product.cc": "the matrix product that all projections share",
    "kernels/cpu/gemm/prepared_rows.cc": "the normalised rows that all projections share",
    "kernels/cpu/gemm/quantised_product.cc": "the same product for int8 and int4 weights",
    "kernels/cpu/recurrence/recurrence_block.cc": "the arithmetic of linear_recurrence within a block",
    "tests/kernels/cuda/algorithm_choice_test.cc": "the choice of a library's algorithm",
    "tests/kernels/cpu/dispatch_test.cc": "the choice of the op table",
    "tests/kernels/op_test.cc": "what the tests of the ops share",
    "tests/kernels/core/memory_nodes_test.cc": "kernels/core, below the ops",
    "tests/kernels/core/physical_memory_test.cc": "kernels/core, below the ops",
    "tests/kernels/core/quantise_lanes_test.cc": "kernels/core, below the ops",
    "tests/kernels/core/quantise_test.cc": "kernels/core, below the ops",
    "tests/kernels/cpu/simd_test.cc": "the vector layer below the CPU ops",
    "tests/kernels/core/thread_pool_test.cc": "kernels/core, below the ops",
}


def header_names(root):
    return {path.stem for path in (root / "kernels/ops").glob("*.h")}


def wrong_headers(root):
    for name in sorted(header_names(root)):
        header = root / f"kernels/ops/{name}.h"
        declares = DECLARES_OP.search(header.read_text(encoding="utf-8")) is not None
        if declares and name in NOT_AN_OP:
            yield f"kernels/ops/{name}.h: declares an op, but is listed as an exception"
        if not declares and name not in NOT_AN_OP:
            yield f"kernels/ops/{name}.h: declares no op, and is not listed as an exception"


def missing_counterparts(root, ops):
    for op in sorted(ops):
        for counterpart in (f"kernels/reference/{op}.cc", f"kernels/cpu/{op}.cc",
                            f"tests/kernels/{op}_test.cc"):
            if not (root / counterpart).is_file():
                yield f"kernels/ops/{op}.h: {counterpart} is missing"


def sources_without_header(root):
    headers = header_names(root)
    for pattern in ("kernels/reference/*.cc", "kernels/cpu/*.cc", "tests/kernels/*_test.cc"):
        for path in sorted(root.glob(pattern)):
            relative = path.relative_to(root).as_posix()
            name = path.stem.removesuffix("_test")
            belongs = any(name == op or name.startswith(op + "_") for op in headers)
            if not belongs and relative not in NOT_OF_AN_OP:
                yield f"{relative}: no header of this name in kernels/ops"


def stale_exceptions(root):
    for name in NOT_AN_OP:
        if not (root / f"kernels/ops/{name}.h").is_file():
            yield f"op_names.py: exception kernels/ops/{name}.h does not exist"
    for name in NOT_OF_AN_OP:
        if not (root / name).is_file():
            yield f"op_names.py: exception {name} does not exist"


def main():
    root = source_tree.parse_root(__doc__)
    ops = header_names(root) - set(NOT_AN_OP)
    problems = [] if ops else ["kernels/ops: no op header found"]
    problems += wrong_headers(root)
    problems += missing_counterparts(root, ops)
    problems += sources_without_header(root)
    problems += stale_exceptions(root)
    return source_tree.report("op names", problems)


if __name__ == "__main__":
    sys.exit(main())
