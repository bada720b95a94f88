// Looks signals up.
#include "service/load/load_signals.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace longstream {

const LoadSignal* FindLoadSignal(std::string_view name) {
  const auto* const found =
      std::find_if(kLoadSignals.begin(), kLoadSignals.end(),
                   [name](const LoadSignal& signal) { return signal.name == name; });
  return found == kLoadSignals.end() ? nullptr : found;
}

std::string LoadSignalNames() {
  return absl::StrJoin(kLoadSignals, ", ", [](std::string* out, const LoadSignal& signal) {
    absl::StrAppend(out, signal.name);
  });
}

}  // namespace longstream
