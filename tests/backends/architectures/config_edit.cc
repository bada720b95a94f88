// Configs for plan tests.
#include "tests/backends/architectures/config_edit.h"

#include <nlohmann/json.hpp>

namespace longstream {

std::string EditedText(std::string_view base, std::string_view changes) {
  nlohmann::json config = nlohmann::json::parse(base.begin(), base.end());
  const nlohmann::json edits = nlohmann::json::parse(changes.begin(), changes.end());
  for (const auto& [key, value] : edits.items()) {
    if (value == "<absent>") {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return config.dump();
}

Config Edited(std::string_view base, std::string_view changes) {
  return Config(EditedText(base, changes), "m/config.json");
}

}  // namespace longstream
