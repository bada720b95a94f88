// The settings of a model: config.json of its directory, and the options of model_open.
#ifndef LONGSTREAM_BACKENDS_MINIMAL_SETTINGS_H_
#define LONGSTREAM_BACKENDS_MINIMAL_SETTINGS_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "backends/api/config_json.h"
#include "backends/api/plugin.h"
#include "backends/minimal/toy_model.h"

namespace longstream::toy {

struct Settings {
  Weights weights;                 // config.json: seed; option: utf8
  uint64_t context_limit = 65536;  // config.json; the option of that name may lower it
  // Options that only tests of a host use:
  uint64_t step_delay_us = 0;  // every step takes at least this long
  // Feeding the token at this position gives NaN logits.
  uint64_t fail_at_position = std::numeric_limits<uint64_t>::max();
  // Feeding the token at this position loses the device for good.
  uint64_t lose_device_at_position = std::numeric_limits<uint64_t>::max();
};

inline nlohmann::json ReadConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  // Opening a FIFO, for example, would block.
  Require(std::filesystem::is_regular_file(path), LS_NOT_FOUND, path + " is not a file");
  std::ifstream file(path);
  Require(file.good(), LS_NOT_FOUND, path + " cannot be read");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  nlohmann::json config =
      nlohmann::json::parse(QuoteNonFinite(text), nullptr, /*allow_exceptions=*/false);
  Require(config.is_object(), LS_DATA_LOSS, path + " is not a JSON object");
  return config;
}

inline std::string ModelType(const nlohmann::json& config) {
  const auto found = config.find("model_type");
  return found != config.end() && found->is_string() ? found->get<std::string>() : "absent";
}

// If `object` has `key`, moves its value to `value` and removes the key. So unknown keys are left
// at the end. Throws Failure if the value has another type.
template <typename Value>
void Take(nlohmann::json& object, const std::string& key, Value& value) {
  constexpr bool kIsBool = std::is_same_v<Value, bool>;
  const auto found = object.find(key);
  if (found == object.end()) return;
  Require(kIsBool ? found->is_boolean() : found->is_number_unsigned(), LS_INVALID_ARGUMENT,
          key + ": expected " + (kIsBool ? "true or false" : "a whole number") + ", found " +
              found->dump());
  value = found->get<Value>();
  object.erase(found);
}

// Throws Failure for a key that was not read, because it might change the mathematics. Accepts keys
// that only the host reads, such as the id of the token that ends a text.
inline void RefuseUnknown(const nlohmann::json& config) {
  for (const auto& [key, value] : config.items()) {
    Require(key == "model_type" || key == "architectures" || key.ends_with("_token_id"),
            LS_UNIMPLEMENTED, "config.json: " + key + " = " + value.dump() + " is not known");
  }
}

// Reads config.json in `directory`, and options: a JSON object, or nullptr for {}. Throws Failure.
inline Settings ReadSettings(const char* directory, const char* options_text) {
  nlohmann::json config = ReadConfig(directory);
  Require(ModelType(config) == "minimal", LS_UNIMPLEMENTED,
          "model_type: expected minimal, found " + ModelType(config));
  Settings settings;
  Take(config, "seed", settings.weights.seed);
  Take(config, "context_limit", settings.context_limit);
  RefuseUnknown(config);
  const uint64_t longest = settings.context_limit;

  auto options = nlohmann::json::parse(options_text != nullptr ? options_text : "{}", nullptr,
                                       /*allow_exceptions=*/false);
  Require(options.is_object(), LS_INVALID_ARGUMENT, "options: expected a JSON object");
  Take(options, "utf8", settings.weights.utf8);
  Take(options, "context_limit", settings.context_limit);
  Take(options, "step_delay_us", settings.step_delay_us);
  Take(options, "fail_at_position", settings.fail_at_position);
  Take(options, "lose_device_at_position", settings.lose_device_at_position);
  Require(options.empty(), LS_INVALID_ARGUMENT, "unknown in options: " + options.dump());
  Require(settings.context_limit >= 1 && settings.context_limit <= longest, LS_INVALID_ARGUMENT,
          "context_limit: expected 1 ... " + std::to_string(longest));
  return settings;
}

}  // namespace longstream::toy

#endif  // LONGSTREAM_BACKENDS_MINIMAL_SETTINGS_H_
