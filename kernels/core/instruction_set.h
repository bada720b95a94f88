// The processor's instruction sets beyond the baseline, and other properties that code depends on.
#ifndef LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
#define LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_

namespace longstream {

// Whether code compiled as avx2 or avx512 (kernels/CMakeLists.txt) can run: the processor has the
// instructions, and the operating system saves their registers.
bool HasAvx2();
bool HasAvx512();

// Whether a loop over runs of memory should prefetch into the first-level cache; if not, into the
// second. The first level is better if the misses that it can have in flight cover memory's
// latency. Measured with attention of one row on one thread, first and second level: on AMD's
// family 1Ah (Zen 5) 33 and 30 GB/s of 42; on 19h (Zen 4; 24 misses of 120 ns) 16 and 19 GB/s
// of 27. True on 1Ah and later families, false on processors that were not measured.
bool AsksIntoFirstLevelCache();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
