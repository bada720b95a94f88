#!/usr/bin/env python3
"""Checks the machine code of the CUDA kernels (docs/cuda.md, Kernels that overlap, Registers).

  - At compute capability 9.0, on every path, a thread waits for the kernels before it, before it
  accesses global memory (except by prefetches) and before it ends. This is checked in the machine
  code, because the compiler may move loads to an earlier place. - A kernel uses at most as much
  stack (for spilled registers) as STACKS allows. - Threads do not wait for products of a warpgroup
  (wgmma) one by one. A compiler generates such waits if it believes that the registers of a product
  are used while it runs. - No kernel has a trap. A compiler generates one where it believes that a
  program is wrong, for example where a kernel refers to an array of the host.

The script reads plugins or any other files with machine code. It needs neither a GPU nor a
disassembler, because it knows the few opcodes that it must recognise.

Usage: machine_code.py FILE... The script prints a line for each kernel that fails a check; the exit
code is then 1.
"""

import re
import struct
import sys

from kernel_resources import demangled

# (pattern of the kernel's name, largest allowed stack in bytes). docs/cuda.md gives the reasons.
STACKS = [
    (r"PrefillKernel<TileShape<BF16, 128, false>", 64),
    (r"GemvMmaKernel<\(DType\)[34], 2, 4,", 80),
    (r"[^:]DecodeKernel<32, false, true>", 64),
    (r"[^:]DecodeKernel<8, true, true>", 64),  # compute capability 8.0
    (r"RopeTableKernel", 40),  # CUDA's sine keeps the digits of a large angle on the stack
]

# Opcodes: the low 9 bits of a 16-byte instruction, for compute capability 8.0 to 9.0.
WAIT, CALL, BRANCH, EXIT, RETURN = 0x02E, 0x144, 0x147, 0x14D, 0x150
TRAP = 0x15C  # BPT
CONTROL = range(0x140, 0x160)
# Control instructions after which the thread continues with the next instruction: BSYNC, BREAK,
# BSSY, YIELD, WARPSYNC, BMOV, BPT.
GOES_ON = {0x141, 0x142, 0x145, 0x146, 0x148, 0x155, 0x156, 0x15C}
MEMORY = range(0x180, 0x1C0)
# Memory instructions that do not access global memory: LDC, LDL, LDS, STL, STS, SHFL, ATOMS; and
# CCTL, which prefetches.
NOT_GLOBAL = {0x182, 0x183, 0x184, 0x187, 0x188, 0x189, 0x18C, 0x18D, 0x18F}

# The instructions of copies from global to shared memory (LDGSTS, and LDGDEPBAR, which ends a group
# of copies), and the kernels that may execute them before they wait, because they copy weights,
# which no step writes.
COPIES = {0x1AE, 0x1AF}
COPIES_WEIGHTS = ("GemvRingKernel<", "BlockProductKernel<")

# The opcode of a warpgroup's product, the opcode of the instruction that orders products, and the
# bit of that instruction that makes it wait.
PRODUCT, WARPGROUP, WARPGROUP_WAITS = 0x1F0, 0x1C5, 1 << 47


def machine_code(data):
    """Yields (compute capability, ELF file) for each piece of machine code in a file."""
    for match in re.finditer(rb"\x50\xed\x55\xba\x01\x00\x10\x00", data):
        (size,) = struct.unpack_from("<Q", data, match.start() + 8)
        at, end = match.start() + 16, match.start() + 16 + size
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
            (capability,) = struct.unpack_from("<I", data, at + 28)
            if kind == 2:  # 1 is PTX
                yield capability, data[at + header:at + header + size]
            at += header + size


def sections(elf):
    """Returns the sections {name: (index, bytes, index of the name table)} of a 64-bit ELF file."""
    if elf[:5] != b"\x7fELF\x02":
        sys.exit("machine code that is compressed; expected what nvcc 13 leaves as it is")
    (table,) = struct.unpack_from("<Q", elf, 40)
    entry, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQI", elf, table + i * entry) for i in range(count)]
    text = elf[headers[names][4]:]
    return {text[h[0]:text.index(b"\0", h[0])].decode(): (i, elf[h[4]:h[4] + h[5]], h[6])
            for i, h in enumerate(headers)}


def kernels_of(elf):
    """Returns [(name, code, bytes of stack)] for the kernels of an ELF file."""
    parts = sections(elf)
    by_index = {index: content for index, content, _ in parts.values()}
    _, symbols, names = parts.get(".symtab", (0, b"", 0))
    stacks = {}
    info = parts.get(".nv.info", (0, b"", 0))[1]
    at = 0
    while at < len(info):  # format, attribute, size or value
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute == 0x11:  # of a function: its symbol, bytes of its frame
            symbol, stack = struct.unpack_from("<II", info, at + 4)
            stacks[symbol] = stack
        at += 4 + (size if form == 4 else 0)
    kernels = []
    for i, symbol in enumerate(struct.iter_unpack("<IBBHQQ", symbols)):
        name, _, other, section, value, size = symbol
        if other & 0x10:  # an entry point
            text = by_index[names][name:]
            kernels.append((text[:text.index(b"\0")].decode(),
                            by_index[section][value:value + size], stacks.get(i, 0)))
    return kernels


def target(at, low, high):
    """The target of a branch or call. Its offset in units of 4 bytes follows the opcode."""
    offset = (low >> 16 & 0xFF) | low >> 34 << 8 | (high & 0x3FFFF) << 38
    return at + 1 + (offset - (offset >> 55 << 56)) // 4


def overlap_problem(name, code):
    """The first problem that a thread may reach before it has waited for earlier kernels, or "" if
    there is none."""
    words = memoryview(code).cast("Q")
    problems, seen, to_do = [], set(), [0]
    while to_do:
        at = to_do.pop()
        if at in seen:
            continue
        seen.add(at)
        if 2 * at >= len(words):
            problems.append((at, "leads out of the kernel"))
            continue
        low, high = words[2 * at], words[2 * at + 1]
        opcode, always = low & 0x1FF, low >> 12 & 0xF == 7
        if opcode == WAIT and always:
            continue
        goes_on = True
        if opcode in (CALL, BRANCH):
            to_do.append(target(at, low, high))
            # A branch may have further conditions: a predicate, or that the warp has diverged.
            goes_on = opcode == CALL or not always or high >> 23 & 0x1FF != 7
        elif opcode == RETURN:
            goes_on = not always
        elif opcode == EXIT:
            problems.append((at, "ends"))
            goes_on = not always
        elif opcode in CONTROL and opcode not in GOES_ON:
            problems.append((at, f"jumps by instruction {low & 0xFFF:#x}, which is not known here"))
        elif opcode in COPIES and any(kernel in name for kernel in COPIES_WEIGHTS):
            pass
        elif opcode in MEMORY and opcode not in NOT_GLOBAL:
            problems.append((at, f"accesses memory by instruction {low & 0xFFF:#x}"))
        if goes_on:
            to_do.append(at + 1)
    if problems:
        at, what = min(problems)
        return f"before it waits for earlier kernels it {what}, at {16 * at:#x}"
    return ""


def stack_problem(name, stack):
    most = max((most for pattern, most in STACKS if re.search(pattern, name)), default=0)
    return f"its stack has {stack} bytes, expected at most {most}" if stack > most else ""


def product_problem(code):
    """Checks that groups have at least 4 products and that threads wait once per group."""
    words = memoryview(code).cast("Q")[::2]
    products = sum(low & 0x1FF == PRODUCT for low in words)
    waits = sum(low & 0x1FF == WARPGROUP and low & WARPGROUP_WAITS != 0 for low in words)
    return f"it waits {waits} times for {products} products" if 4 * waits > products else ""


def trap_problem(code):
    for at, low in enumerate(memoryview(code).cast("Q")[::2]):
        if low & 0x1FF == TRAP:
            return f"it has a trap, at {16 * at:#x}"
    return ""


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    failed = False
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            found = [(capability, *kernel) for capability, elf in machine_code(file.read())
                     for kernel in kernels_of(elf)]
        names = demangled([name for _, name, _, _ in found])
        for name, (capability, _, code, stack) in zip(names, found):
            problems = [stack_problem(name, stack)]
            if capability == 90:
                problems += [overlap_problem(name, code), product_problem(code), trap_problem(code)]
            for problem in filter(None, problems):
                failed = True
                print(f"{path}: {name} (sm_{capability}): {problem}")
        overlapping = sum(capability == 90 for capability, *_ in found)
        print(f"{path}: {len(found)} kernels, {overlapping} of compute capability 9.0")
        failed |= not found
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
