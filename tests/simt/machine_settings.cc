// Reads LONGSTREAM_SIMT_MACHINE.
#include "tests/simt/machine_settings.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace longstream::simt {
namespace {

void Apply(std::string_view setting, Machine& machine) {
  const size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  uint64_t value = 0;
  if (equals != std::string_view::npos) {
    const char* const end = setting.data() + setting.size();
    const auto [rest, error] = std::from_chars(setting.data() + equals + 1, end, value);
    if (error == std::errc() && rest == end) {
      if (name == "driver") return void(machine.driver_version = static_cast<int>(value));
      if (name == "devices") return machine.devices.resize(value);
      if (name == "memory") return void(machine.memory_bytes = value);
    }
  }
  std::fprintf(stderr, "simt: LONGSTREAM_SIMT_MACHINE: '%.*s' is no setting\n",
               static_cast<int>(setting.size()), setting.data());
  std::abort();
}

}  // namespace

void ReadMachineSettings(Machine& machine) {
  const char* variable = std::getenv("LONGSTREAM_SIMT_MACHINE");
  if (variable == nullptr) return;
  const Machine usual;
  machine.driver_version = usual.driver_version;
  machine.devices = usual.devices;
  machine.memory_bytes = usual.memory_bytes;
  for (std::string_view rest = variable; !rest.empty();) {
    const size_t comma = rest.find(',');
    Apply(rest.substr(0, comma), machine);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
}

}  // namespace longstream::simt
