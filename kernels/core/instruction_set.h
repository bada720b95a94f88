// The instruction sets of the processor that code is compiled for, beside the baseline, and what
// else of a processor code depends on.
#ifndef LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
#define LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_

namespace longstream {

// Whether the processor has all that is compiled as avx2, avx512 (kernels/CMakeLists.txt), and the
// operating system saves its registers.
bool HasAvx2();
bool HasAvx512();

// Whether a loop over runs of memory asks the first-level cache, not the second, for lines that it
// is about to use: where the misses that it has under way cover memory's latency. Measured with
// attention of one row on one thread: on AMD's family 1Ah (Zen 5) the first level gives 33 GB/s of
// 42 and the second 30; on 19h (Zen 4), 24 misses of 120 ns, 16 and 19 GB/s of 27. True on 1Ah and
// later families, false on processors that were not measured.
bool AsksIntoFirstLevelCache();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
