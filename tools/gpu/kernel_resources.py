#!/usr/bin/env python3
"""Prints the registers, spilt bytes and shared memory of the CUDA kernels, and how many of their
blocks fit on an SM of the H200.

The script compiles the .cu files of a build again with the build's commands and reads the output of
ptxas for each kernel. It needs nvcc and a configured build, but no GPU.

Usage: kernel_resources.py [--build build/release] [--arch sm_90a] [--only NAME] [--all] Without
--all it prints only the kernels in LAUNCHES, whose block sizes are known. The exit code is 1 if a
file does not compile. machine_code.py lists the kernels that may spill.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

# Resources of an SM of compute capability 9.0, and the shared memory that each block takes in
# addition to its own.
REGISTERS, THREADS, BLOCKS, SHARED_BYTES, RESERVED_BYTES = 65536, 2048, 32, 228 << 10, 1 << 10

# (name, pattern of the kernel's name, threads of a block, bytes of shared memory) of launches for
# heads of 128 and one token of 5120 inputs.
LAUNCHES = [
    ("GEMV bf16", r"GemvRingKernel<1, 1, RowsToPrepare", 256, 138240),
    ("GEMV bf16, gate and up", r"GemvRingKernel<2, 1, RowsToPrepare", 256, 138240),
    ("GEMV int8", r"GemvMmaKernel<\(DType\)3, 1, 1, RowsToPrepare", 256, 10880),
    ("GEMV int4", r"GemvMmaKernel<\(DType\)4, 1, 1, RowsToPrepare", 256, 10880),
    ("GEMV bf16, prepared rows", r"GemvRingKernel<1, 1, RowsInMemory", 256, 128000),
    ("rows for a GEMV, bf16", r"PrepareRowsKernel<BF16>", 256, 64),
    ("decode attention, bf16", r"DecodeKernel<TileShape<BF16, 128, true>", 128, 75008),
    ("prefill attention, bf16, wgmma", r"PrefillKernel<WgmmaShape<128>", 256, 163840),
    ("prefill attention, bf16, mma.sync", r"PrefillKernel<TileShape<BF16, 128, false>", 128, 105472),
    ("recurrence, decode", r"[^:]DecodeKernel<32, false, true>", 256, 4864),
    ("recurrence, prefill scores", r"ScoreKernel<false>", 256, 34816),
    ("recurrence, prefill scores with gates", r"ScoreKernel<true>", 256, 71424),
    ("recurrence, prefill states", r"StateKernel<StateShape<2, true>", 256, 87812),
    ("sampling, a part of a row", r"SelectKernel", 256, 72),
    ("sampling, the end", r"FinishKernel", 512, 69896),
]


def ptxas_output(entry):
    """Returns the output of ptxas for a file, given the file's entry in compile_commands.json."""
    command = shlex.split(entry["command"])
    with tempfile.TemporaryDirectory() as directory:
        command[command.index("-o") + 1] = f"{directory}/object.o"
        done = subprocess.run(command + ["-Xptxas", "-v"], cwd=entry["directory"],
                              capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{entry['file']}:\n{done.stderr}")
    return done.stderr


def kernels_of(text):
    """Parses ptxas's output to [{name, arch, registers, spilt, shared}]; the names are mangled."""
    kernels = []
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            kernels.append({"name": match[1], "arch": match[2]})
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            # ptxas lists called functions before their kernel's registers.
            kernels[-1]["spilt"] = kernels[-1].get("spilt", 0) + int(match[1]) + int(match[2])
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            kernels[-1].update(registers=int(match[1]), shared=int(shared[1]) if shared else 0)
    return [kernel for kernel in kernels if "registers" in kernel]


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    return [re.sub(r"\(anonymous namespace\)::|longstream::(cuda::)?", "", line)
            for line in text.splitlines()]


def blocks_per_sm(registers, threads, shared_bytes):
    """The number of blocks that fit on an SM. A warp gets its registers in units of 256."""
    warps = -(-threads // 32)
    of_warp = -(-registers * 32 // 256) * 256
    return min(REGISTERS // (of_warp * warps), THREADS // threads, BLOCKS,
               SHARED_BYTES // (shared_bytes + RESERVED_BYTES))


def line(kernel):
    label, threads, dynamic = next(
        ((label, threads, dynamic) for label, pattern, threads, dynamic in LAUNCHES
         if re.search(pattern, kernel["name"])), (kernel["name"].split("(")[0], None, None))
    blocks = "" if threads is None else blocks_per_sm(kernel["registers"], threads, dynamic)
    return (f"{label[:70]:<70} {kernel['arch']:<8} {kernel['registers']:>9} {kernel['spilt']:>5} "
            f"{'' if threads is None else threads:>7} {kernel['shared'] + (dynamic or 0):>7} "
            f"{blocks:>6}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--only", default="", help="a part of the file's name")
    parser.add_argument("--all", action="store_true", help="the kernels without a known block, too")
    arguments = parser.parse_args()

    kernels = []
    for entry in json.loads((arguments.build / "compile_commands.json").read_text()):
        is_kernel = re.search(r"/kernels/cuda/\w+/\w+\.cu$", entry["file"])
        if is_kernel and " -x cu " in entry["command"] and arguments.only in entry["file"]:
            kernels += kernels_of(ptxas_output(entry))
    for kernel, name in zip(kernels, demangled([kernel["name"] for kernel in kernels])):
        kernel["name"] = name
    print(f"{'kernel':<70} {'arch':<8} {'registers':>9} {'spilt':>5} {'threads':>7} {'shared':>7} "
          f"{'blocks':>6}")
    for kernel in sorted(kernels, key=lambda kernel: kernel["name"]):
        named = any(re.search(pattern, kernel["name"]) for _, pattern, _, _ in LAUNCHES)
        if kernel["arch"] == arguments.arch and (named or arguments.all):
            print(line(kernel))
    sys.exit(0 if kernels else 1)


if __name__ == "__main__":
    main()
