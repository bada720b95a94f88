// The instruction sets of the processor that code is compiled for, beside the baseline.
#ifndef LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
#define LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_

namespace longstream {

// Whether the processor has all that is compiled as avx2, avx512 (kernels/CMakeLists.txt), and the
// operating system saves its registers.
bool HasAvx2();
bool HasAvx512();

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_INSTRUCTION_SET_H_
