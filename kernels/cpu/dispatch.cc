// Chooses the CPU op table when the process first asks for it. This file is compiled for the
// baseline instruction set.
#include <cstdlib>
#include <string_view>

#include "kernels/core/device.h"
#include "kernels/core/instruction_set.h"
#include "kernels/cpu/cpu_ops.h"

namespace longstream {
namespace cpu {

namespace baseline {
const OpTable& Ops();
}
namespace avx2 {
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

const OpTable& Choose() {
  if (const char* wanted = std::getenv("LONGSTREAM_ISA")) {
    if (const OpTable* ops = OpsFor(wanted)) return *ops;
  }
  if (HasAmx()) return cpu::amx::Ops();
  if (HasAvx512()) return cpu::avx512::Ops();
  if (HasAvx2()) return cpu::avx2::Ops();
  return cpu::baseline::Ops();
}

}  // namespace

const OpTable* OpsFor(const char* isa) {
  const std::string_view name = isa;
  if (name == "baseline") return &cpu::baseline::Ops();
  if (name == "avx2" && HasAvx2()) return &cpu::avx2::Ops();
  if (name == "avx512" && HasAvx512()) return &cpu::avx512::Ops();
  if (name == "amx" && HasAmx()) return &cpu::amx::Ops();
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
  const char* wanted = std::getenv("LONGSTREAM_ISA");
  if (wanted != nullptr && OpsFor(wanted) == nullptr) {
    return {
        .device = nullptr,
        .why = std::string("LONGSTREAM_ISA: expected one of baseline, avx2, avx512, amx that this "
                           "processor has, found '") +
               wanted + "'" + (std::string_view(wanted) == "amx" ? ": " + NoAmxReason() : "")};
  }
  return {.device = std::make_unique<HostDevice>(), .name = DeviceKind()};
}

}  // namespace longstream
