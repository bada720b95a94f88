#include "kernels/core/instruction_set.h"

#include <cpuid.h>

namespace longstream {
namespace {

// The __builtin_cpu_supports of clang 14 does not know F16C.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// The processor's family in AMD's numbering: 0x19 is Zen 3 and 4, 0x1a is Zen 5. 0 means that
// another maker made the processor.
unsigned AmdFamily() {
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_AMD_ebx ||
      ecx != signature_AMD_ecx || edx != signature_AMD_edx) {
    return 0;
  }
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return 0;
  constexpr unsigned kExtended = 15;
  const unsigned family = eax >> 8 & 15;
  return family == kExtended ? family + (eax >> 20 & 255) : family;
}

}  // namespace

// __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c() &&
         __builtin_cpu_supports("bmi2");
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
}

bool AsksIntoFirstLevelCache() {
  static const bool first_level = AmdFamily() >= 0x1a;  // cpuid is slow in a virtual machine
  return first_level;
}

}  // namespace longstream
