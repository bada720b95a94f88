// Reads LONGSTREAM_SIMT_MACHINE.
#include "tests/simt/harness/machine_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace longstream::simt {
namespace {

// Parses all of `text` as a number.
bool Read(std::string_view text, uint64_t* value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && rest == end;
}

bool ApplyTo(MachineDevice& device, std::string_view name, uint64_t value) {
  if (name == "memory") {
    device.memory_bytes = value;
  } else if (name == "capability") {
    device.major = static_cast<int>(value / 10);
    device.minor = static_cast<int>(value % 10);
  } else if (name == "shared") {
    device.sharedMemPerBlockOptin = value;
  } else {
    return false;
  }
  return true;
}

// Applies a setting. Returns false if `setting` is not a valid one.
bool Apply(std::string_view setting, Machine& machine) {
  const size_t equals = setting.find('=');
  uint64_t value = 0;
  if (equals == std::string_view::npos || !Read(setting.substr(equals + 1), &value)) return false;
  const std::string_view name = setting.substr(0, equals);
  if (name == "driver") {
    machine.driver_version = static_cast<int>(value);
    return true;
  }
  if (name == "devices") {
    machine.devices.resize(value);
    return true;
  }
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) {
    return std::all_of(machine.devices.begin(), machine.devices.end(),
                       [&](MachineDevice& device) { return ApplyTo(device, name, value); });
  }
  uint64_t device = 0;
  return Read(name.substr(colon + 1), &device) && device < machine.devices.size() &&
         ApplyTo(machine.devices[device], name.substr(0, colon), value);
}

}  // namespace

void ReadMachineSettings(Machine& machine) {
  const char* variable = std::getenv("LONGSTREAM_SIMT_MACHINE");
  if (variable == nullptr) return;
  const Machine usual;
  machine.driver_version = usual.driver_version;
  machine.devices = usual.devices;
  for (std::string_view rest = variable; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view setting = rest.substr(0, comma);
    if (!Apply(setting, machine)) {
      std::fprintf(stderr, "simt: LONGSTREAM_SIMT_MACHINE: '%.*s' is no setting\n",
                   static_cast<int>(setting.size()), setting.data());
      std::abort();
    }
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
}

}  // namespace longstream::simt
