// The environment variable LONGSTREAM_ISA, which pins the instruction set of the CPU's kernels.
#ifndef LONGSTREAM_KERNELS_CORE_PINNED_ISA_H_
#define LONGSTREAM_KERNELS_CORE_PINNED_ISA_H_

#include <string>

namespace longstream {

// The sets for which the kernels are compiled, from the oldest to the newest.
inline constexpr const char* kIsaNames[] = {"baseline", "avx2", "avx512_f32", "avx512", "amx"};

// Whether the processor and its operating system can run the set. False: it is none of kIsaNames.
bool CanRunIsa(const std::string& isa);

// The value of LONGSTREAM_ISA; nullptr: the variable is not set, or is empty.
const char* PinnedIsa();

// Why the processor cannot run the set that LONGSTREAM_ISA names, or that the name is no set; "" if
// it can, or if the variable is not set.
std::string WhyNotPinnedIsa();

// The error for a set that cannot be used.
std::string NoIsaError(const std::string& isa);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_PINNED_ISA_H_
