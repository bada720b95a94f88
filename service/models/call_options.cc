// No call names a file.
#include "service/models/call_options.h"

#include "absl/strings/str_cat.h"
#include "backends/api/path_options.h"
#include "nlohmann/json.hpp"

namespace longstream {

absl::Status CheckCallOptions(const std::string& options_json) {
  const nlohmann::json options =
      nlohmann::json::parse(options_json, nullptr, /*allow_exceptions=*/false);
  if (!options.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("options: expected a JSON object, found ",
                     options.is_discarded() ? "no valid JSON" : options.type_name()));
  }
  for (const std::string_view option : kPathOptions) {
    if (!options.contains(option)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("options: ", std::string(option),
                     " is a path, which only the server's configuration may have"));
  }
  return absl::OkStatus();
}

}  // namespace longstream
