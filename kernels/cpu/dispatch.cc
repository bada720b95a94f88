// Chooses the CPU op table when the process first asks for it. This file is compiled for the
// baseline instruction set.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "kernels/core/device.h"
#include "kernels/core/instruction_set.h"
#include "kernels/core/pinned_isa.h"
#include "kernels/cpu/cpu_ops.h"

namespace longstream {
namespace cpu {

namespace baseline {
const OpTable& Ops();
}
namespace avx2 {
const OpTable& Ops();
}
namespace avx512_f32 {
const OpTable& Ops();
}
namespace avx512 {
const OpTable& Ops();
}
namespace amx {
const OpTable& Ops();
}

}  // namespace cpu

namespace {

struct OpSet {
  std::string_view name;
  bool (*can_run)();
  const OpTable& (*ops)();
  bool (*is_fastest)() = [] { return true; };  // false: a later entry of kSets is faster
};

// The sets of this build (kernels/CMakeLists.txt), the newest first.
constexpr OpSet kSets[] = {
#ifdef LONGSTREAM_AMX_OPS
    {"amx", &HasAmx, &cpu::amx::Ops},
#endif
#ifdef LONGSTREAM_AVX512_OPS
    {"avx512", &HasAvx512, &cpu::avx512::Ops, &HasFastBF16Dots},
#endif
#ifdef LONGSTREAM_AVX512_F32_OPS
    {"avx512_f32", &HasAvx512F32, &cpu::avx512_f32::Ops},
#endif
    {"avx2", &HasAvx2, &cpu::avx2::Ops},
    {"baseline", [] { return true; }, &cpu::baseline::Ops},
};

const OpTable& Choose() {
  if (const char* pinned = PinnedIsa()) {
    if (const OpTable* ops = OpsFor(pinned)) return *ops;
  }
  return std::find_if(std::begin(kSets), std::end(kSets),
                      [](const OpSet& set) { return set.can_run() && set.is_fastest(); })
      ->ops();
}

}  // namespace

const OpTable* OpsFor(const char* isa) {
  for (const OpSet& set : kSets) {
    if (set.name == isa) return set.can_run() ? &set.ops() : nullptr;
  }
  return nullptr;
}

const OpTable& DeviceOps() {
  static const OpTable& ops = Choose();
  return ops;
}

const char* DeviceKind() { return "cpu"; }
bool DeviceRunsBesideHost() { return false; }

OpenedDevice OpenDevice(std::string_view name) {
  if (name != DeviceKind()) {
    return {.device = nullptr,
            .why = "there is no device '" + std::string(name) + "' here, expected 'cpu'",
            .unknown = true};
  }
  // A user who pins the instruction set relies on its bits, so another set must not replace it.
  const char* pinned = PinnedIsa();
  if (pinned != nullptr && OpsFor(pinned) == nullptr) {
    return {.device = nullptr, .why = NoIsaError(pinned)};
  }
  return {.device = std::make_unique<HostDevice>(), .name = DeviceKind()};
}

}  // namespace longstream
