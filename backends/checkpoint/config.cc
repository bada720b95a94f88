// Reads a model's config.json strictly.
#include "backends/checkpoint/config.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "backends/api/config_json.h"
#include "backends/checkpoint/gguf/gguf_config.h"
#include "backends/checkpoint/gguf/gguf_model.h"
#include "backends/checkpoint/harmless_keys.h"
#include "backends/checkpoint/json.h"
#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {

using Json = nlohmann::json;

// State that all objects of one file share.
struct Config::Shared {
  bool ignores_unknown = false;
  bool has_own_class = false;  // the file has auto_map
  std::vector<std::string> warnings;
};

struct Config::Node {
  std::shared_ptr<Shared> shared;
  std::string file;
  std::string prefix;  // the path to this object in sentences: "rope_parameters."
  Json object;
  std::set<std::string, std::less<>> asked;

  // The value of a key; nullptr if it is absent or null. Peek does not record the key as asked.
  const Json* Peek(std::string_view key) const {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }
  const Json* Ask(std::string_view key) {
    asked.emplace(key);
    return Peek(key);
  }
};

namespace {

std::string Text(const Json& value) {
  return Shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string Text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::string IntegerRange(int64_t min, int64_t max) {
  return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

// Python writes both 512 and 512.0 for the same integer.
std::optional<int64_t> AsInteger(const Json& value, int64_t min, int64_t max) {
  int64_t integer = 0;
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    integer = value.get<int64_t>();
  } else if (value.is_number_integer()) {
    integer = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::abs(number) > 0x1p53 || number != std::floor(number)) return std::nullopt;
    integer = static_cast<int64_t>(number);
  } else {
    return std::nullopt;
  }
  if (integer < min || integer > max) return std::nullopt;
  return integer;
}

// Whether the value turns the key's feature off.
bool IsOff(const Json& value) {
  return value == Json(false) || (value.is_structured() && value.empty());
}

// Removes the value under a path of keys with dots between them. Returns whether it was there. A
// key may have dots itself ("transformers.js_config"), so the whole path is tried as a key first.
bool RemovePath(Json& object, std::string_view path) {
  if (!object.is_object()) return false;
  if (const auto it = object.find(path); it != object.end()) {
    object.erase(it);
    return true;
  }
  for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
    const auto it = object.find(path.substr(0, dot));
    if (it != object.end() && RemovePath(*it, path.substr(dot + 1))) return true;
  }
  return false;
}

// The names of keys in a sentence. A file may have very many.
std::string Listed(const std::vector<std::string>& keys) {
  constexpr size_t kMost = 20;
  std::string names;
  for (size_t i = 0; i < std::min(keys.size(), kMost); ++i) {
    names += (i == 0 ? "" : ", ") + Shortened(keys[i]);
  }
  if (keys.size() > kMost) names += " and " + std::to_string(keys.size() - kMost) + " more";
  return names;
}

bool Matches(std::string_view key, std::string_view pattern) {
  if (!pattern.empty() && pattern.back() == '*') {
    return key.starts_with(pattern.substr(0, pattern.size() - 1));
  }
  return key == pattern;
}

// Returns the value that Find... found. If there is none, throws the error for a missing key.
template <typename T>
T Required(const Config& config, std::string_view key, const char* expected,
           std::optional<T> found) {
  if (!found) config.Invalid(key, std::string("is missing, expected ") + expected);
  return *std::move(found);
}

Config ReadConfig(const std::string& path) {
  if (const std::optional<GgufModel> gguf = GgufModel::Open(path)) {
    return Config(GgufConfigText(*gguf), gguf->path() + ", read as config.json");
  }
  const std::string file = path + "/config.json";
  return Config(ReadTextFile(file), file);
}

}  // namespace

Config::Config(const std::string& path) : Config(ReadConfig(path)) {}

Config::Config(std::string_view text, std::string file) : node_(std::make_shared<Node>()) {
  node_->shared = std::make_shared<Shared>();
  node_->file = std::move(file);
  node_->object = ParseJsonObject(QuoteNonFinite(text), node_->file, LS_INVALID_ARGUMENT);
  node_->shared->has_own_class = node_->Peek("auto_map") != nullptr;
}

Config::Config(std::shared_ptr<Node> node) : node_(std::move(node)) {}

const std::string& Config::file() const { return node_->file; }

void Config::Remove(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (RemovePath(node_->object, key)) continue;
    throw BackendError(LS_INVALID_ARGUMENT, "options: ignore_keys acts on nothing: " + node_->file +
                                                " has no key " + Shortened(key));
  }
  node_->shared->has_own_class = node_->Peek("auto_map") != nullptr;
}

bool Config::Has(std::string_view key) const { return node_->Ask(key) != nullptr; }

bool Config::IsString(std::string_view key) const {
  const Json* value = node_->Ask(key);
  return value != nullptr && value->is_string();
}

bool Config::IsNull(std::string_view key) const {
  node_->Ask(key);
  const auto it = node_->object.find(key);
  return it != node_->object.end() && it->is_null();
}

bool Config::IsNumber(std::string_view key, double number) const {
  const Json* value = node_->Peek(key);
  return value != nullptr && value->is_number() && value->get<double>() == number;
}

std::optional<bool> Config::FindBool(std::string_view key) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) Invalid(key, "must be true or false, found " + Text(*value));
  return value->get<bool>();
}

std::optional<int64_t> Config::FindInteger(std::string_view key, int64_t min, int64_t max) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> integer = AsInteger(*value, min, max);
  if (!integer) Invalid(key, "must be " + IntegerRange(min, max) + ", found " + Text(*value));
  return integer;
}

std::optional<double> Config::FindNumber(std::string_view key, double min, double max) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= min && number <= max)) {
    Invalid(key,
            "must be a number from " + Text(min) + " to " + Text(max) + ", found " + Text(*value));
  }
  return number;
}

std::optional<std::string> Config::FindString(std::string_view key) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) Invalid(key, "must be a string, found " + Text(*value));
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> Config::FindStrings(std::string_view key) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  const bool all_strings =
      value->is_array() &&
      std::all_of(value->begin(), value->end(), [](const Json& item) { return item.is_string(); });
  if (!all_strings) Invalid(key, "must be a list of strings, found " + Text(*value));
  return value->get<std::vector<std::string>>();
}

std::optional<std::vector<int64_t>> Config::FindIntegers(std::string_view key, int64_t min,
                                                         int64_t max) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  std::vector<int64_t> integers;
  if (value->is_array()) {
    for (const Json& item : *value) {
      const std::optional<int64_t> integer = AsInteger(item, min, max);
      if (!integer) break;
      integers.push_back(*integer);
    }
  }
  if (!value->is_array() || integers.size() != value->size()) {
    Invalid(key, "must be a list, each item " + IntegerRange(min, max) + ", found " + Text(*value));
  }
  return integers;
}

std::optional<std::vector<double>> Config::FindNumbers(std::string_view key, double min,
                                                       double max) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  std::vector<double> numbers;
  if (value->is_array()) {
    for (const Json& item : *value) {
      const double number = item.is_number() ? item.get<double>() : NAN;
      if (!(number >= min && number <= max)) break;
      numbers.push_back(number);
    }
  }
  if (!value->is_array() || numbers.size() != value->size()) {
    Invalid(key, "must be a list, each item a number from " + Text(min) + " to " + Text(max) +
                     ", found " + Text(*value));
  }
  return numbers;
}

std::optional<Config> Config::FindObject(std::string_view key) const {
  const Json* value = node_->Ask(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) Invalid(key, "must be an object, found " + Text(*value));
  auto node = std::make_shared<Node>();
  node->shared = node_->shared;
  node->file = node_->file;
  node->prefix = node_->prefix + std::string(key) + ".";
  node->object = *value;
  return Config(std::move(node));
}

bool Config::Bool(std::string_view key) const {
  return Required(*this, key, "true or false", FindBool(key));
}

int64_t Config::Integer(std::string_view key, int64_t min, int64_t max) const {
  return Required(*this, key, IntegerRange(min, max).c_str(), FindInteger(key, min, max));
}

double Config::Number(std::string_view key, double min, double max) const {
  return Required(*this, key, "a number", FindNumber(key, min, max));
}

std::string Config::String(std::string_view key) const {
  return Required(*this, key, "a string", FindString(key));
}

std::vector<std::string> Config::Strings(std::string_view key) const {
  return Required(*this, key, "a list of strings", FindStrings(key));
}

std::vector<int64_t> Config::Integers(std::string_view key, int64_t min, int64_t max) const {
  return Required(*this, key, "a list of integers", FindIntegers(key, min, max));
}

std::vector<double> Config::Numbers(std::string_view key, double min, double max) const {
  return Required(*this, key, "a list of numbers", FindNumbers(key, min, max));
}

Config Config::Object(std::string_view key) const {
  return Required(*this, key, "an object", FindObject(key));
}

std::vector<std::string> Config::Keys() const {
  std::vector<std::string> keys;
  for (const auto& item : node_->object.items()) keys.push_back(item.key());
  return keys;
}

void Config::RefuseUnknown(std::string_view reader,
                           std::initializer_list<std::string_view> harmless) const {
  std::vector<std::string> ignored;
  for (const auto& item : node_->object.items()) {
    const std::string& key = item.key();
    if (item.value().is_null() || node_->asked.contains(key) || IsHarmlessKey(key)) continue;
    if (IsHarmlessIfOff(key) && IsOff(item.value())) continue;
    if (std::any_of(harmless.begin(), harmless.end(),
                    [&key](std::string_view pattern) { return Matches(key, pattern); })) {
      continue;
    }
    const bool is_on = !IsOff(item.value()) && item.value() != Json(0);
    if (!node_->shared->ignores_unknown || (ChangesMathematics(key) && is_on)) {
      Unsupported(key, "= " + Text(item.value()) + " is not known to " + std::string(reader) +
                           ", and what is not known may change the mathematics; the option "
                           "ignore_keys ignores the key");
    }
    if (ChangesMathematics(key)) continue;
    ignored.push_back(node_->prefix + key);
  }
  if (ignored.empty()) return;
  AddWarning(node_->file + ": keys that are not known to " + std::string(reader) +
             " are ignored: " + Listed(ignored));
}

void Config::IgnoreUnknown() const {
  node_->shared->ignores_unknown = !node_->shared->has_own_class;
}

void Config::Warn(std::string_view key, const std::string& problem) const {
  AddWarning(node_->file + ": " + node_->prefix + Shortened(key) + " " + problem);
}

void Config::AddWarning(std::string sentence) const {
  std::vector<std::string>& warnings = node_->shared->warnings;
  if (std::find(warnings.begin(), warnings.end(), sentence) == warnings.end()) {
    warnings.push_back(std::move(sentence));
  }
}

const std::vector<std::string>& Config::warnings() const { return node_->shared->warnings; }

void Config::Invalid(std::string_view key, const std::string& problem) const {
  throw BackendError(LS_INVALID_ARGUMENT,
                     node_->file + ": " + node_->prefix + Shortened(key) + " " + problem);
}

void Config::Unsupported(std::string_view key, const std::string& problem) const {
  throw BackendError(LS_UNIMPLEMENTED,
                     node_->file + ": " + node_->prefix + Shortened(key) + " " + problem);
}

std::string Config::Found(std::string_view key) const {
  const auto it = node_->object.find(key);
  return it == node_->object.end() ? "nothing" : Text(*it);
}

}  // namespace longstream
