#include "kernels/core/instruction_set.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

// Whether the processor has tiles (bit 24 of CPUID's leaf 7) and their products of bf16 (bit 22)
// and of bytes (bit 25), and the system saves them (bits 17 and 18 of XCR0).
bool HasTileUnit() {
  constexpr unsigned kTiles = 1u << 24 | 1u << 22 | 1u << 25, kSaved = 3u << 17;
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTiles) != kTiles)
    return false;
  asm("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & kSaved) == kSaved;
}

// Asks Linux for the permission to use the data of tiles (Documentation/arch/x86/xstate.rst).
std::string AskForTiles() {
  if (!HasAvx512() || !HasTileUnit()) return "the processor has no AMX";
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return "";
  return std::string("Linux refuses AMX, arch_prctl(ARCH_REQ_XCOMP_PERM, 18): ") +
         std::strerror(errno);
}

}  // namespace

// __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c() &&
         __builtin_cpu_supports("bmi2");
}

bool HasAvx512F32() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni");
}

bool HasAvx512() { return HasAvx512F32() && __builtin_cpu_supports("avx512bf16"); }

bool HasFastBF16Dots() { return AmdFamily() != 0; }

const std::string& NoAmxReason() {
  static const std::string reason = AskForTiles();
  return reason;
}

bool HasAmx() { return NoAmxReason().empty(); }

bool AsksIntoFirstLevelCache() {
  static const bool first_level = AmdFamily() >= 0x1a;  // cpuid is slow in a virtual machine
  return first_level;
}

}  // namespace longstream
