// The processor's instruction sets beyond the baseline, and other properties that code depends on.
#ifndef LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
#define LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_

#include <string>

namespace longstream {

// Whether code compiled as avx2, avx512_f32 or avx512 (kernels/CMakeLists.txt) can run: the
// processor has the instructions, and the operating system saves their registers. avx512_f32 has
// the dot product of bytes (Xeons from Cascade Lake on), avx512 also the dot product of bf16.
bool HasAvx2();
bool HasAvx512F32();
bool HasAvx512();

// Whether the dot product of bf16 (vdpbf16ps), if the processor has it, does more operations in a
// second than an f32 FMA.
// Measured on one thread, in TFLOP/s:
//   processor                  vdpbf16ps   f32 FMA
//   AMD family 1Ah (Zen 5)     0.53        0.29
//   Intel Granite Rapids       0.11        0.23
// The function returns true on AMD's processors, and false on all others.
bool HasFastBF16Dots();

// Whether code compiled as amx can run: avx512's, and the tiles of AMX with products of bf16 and of
// bytes. The first call asks Linux for the permission to use tiles, for the whole process. Linux
// gives it to a process whose signal stacks have room for the tiles.
bool HasAmx();

// Why HasAmx() is false, in words; "" if it is true.
const std::string& NoAmxReason();

// Whether a loop over runs of memory should prefetch into the first-level cache; if not, into the
// second. The first level is better if enough of its misses can be in flight to cover the latency
// of memory. Measured as the speed at which attention of one row on one thread reads memory:
//   AMD family      first level   second level   most that was possible
//   1Ah (Zen 5)     33 GB/s       30 GB/s        42 GB/s
//   19h (Zen 4)     16 GB/s       19 GB/s        27 GB/s
// On Zen 4 the first level has at most 24 misses in flight, and a miss takes 120 ns. The function
// returns true on 1Ah and later families, and false on processors that were not measured.
bool AsksIntoFirstLevelCache();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
