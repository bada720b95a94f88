// Configs for plan tests.
#include "tests/backends/architectures/config_edit.h"

#include <nlohmann/json.hpp>

#include "backends/api/config_json.h"

namespace longstream {

namespace {

// Values that Python writes and JSON does not have.
constexpr std::string_view kNonFinite[] = {"\"-Infinity\"", "\"Infinity\"", "\"NaN\""};

// Takes the quotes of these values away.
std::string Unquoted(std::string text) {
  for (const std::string_view quoted : kNonFinite) {
    for (size_t at = text.find(quoted); at != text.npos; at = text.find(quoted)) {
      text.replace(at, quoted.size(), quoted.substr(1, quoted.size() - 2));
    }
  }
  return text;
}

}  // namespace

std::string EditedText(std::string_view base, std::string_view changes) {
  nlohmann::json config = nlohmann::json::parse(QuoteNonFinite(base));
  const nlohmann::json edits = nlohmann::json::parse(QuoteNonFinite(changes));
  for (const auto& [key, value] : edits.items()) {
    if (value == "<absent>") {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return Unquoted(config.dump());
}

Config Edited(std::string_view base, std::string_view changes) {
  return Config(EditedText(base, changes), "m/config.json");
}

}  // namespace longstream
