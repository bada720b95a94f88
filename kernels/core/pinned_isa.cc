// Reads the variable and asks the processor.
#include "kernels/core/pinned_isa.h"

#include <cstdlib>

#include "kernels/core/instruction_set.h"

namespace longstream {

bool CanRunIsa(const std::string& isa) {
  if (isa == "baseline") return true;
  if (isa == "avx2") return HasAvx2();
  if (isa == "avx512_f32") return HasAvx512F32();
  if (isa == "avx512") return HasAvx512();
  return isa == "amx" && HasAmx();
}

const char* PinnedIsa() {
  const char* isa = std::getenv("LONGSTREAM_ISA");
  return isa == nullptr || *isa == '\0' ? nullptr : isa;
}

std::string WhyNotPinnedIsa() {
  const char* isa = PinnedIsa();
  return isa == nullptr || CanRunIsa(isa) ? "" : NoIsaError(isa);
}

std::string NoIsaError(const std::string& isa) {
  std::string names;
  for (const char* name : kIsaNames) names += (names.empty() ? "" : ", ") + std::string(name);
  return "LONGSTREAM_ISA: expected one of " + names + " that this processor has, found '" + isa +
         "'" + (isa == "amx" ? ": " + NoAmxReason() : "");
}

}  // namespace longstream
