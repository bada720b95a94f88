#include "tests/kernels/cpu/amx_plain.h"

#include "kernels/core/instruction_set.h"
#include "kernels/core/pinned_isa.h"
#include "kernels/cpu/cpu_ops.h"

namespace longstream {

namespace cpu::amx_plain {
const OpTable& Ops();
}

namespace {
constexpr const char* kPlain = "amx_plain";
}

std::vector<std::string> SetsUnderTest() {
  std::vector<std::string> names;
  for (const char* isa : kIsaNames) {
    if (OpsFor(isa) != nullptr) names.emplace_back(isa);
  }
  if (HasAvx2()) names.emplace_back(kPlain);
  return names;
}

const OpTable& OpsOfSet(const std::string& name) {
  return name == kPlain ? cpu::amx_plain::Ops() : *OpsFor(name.c_str());
}

}  // namespace longstream
