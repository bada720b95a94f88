// Reads YAML documents strictly, with yaml-cpp.
#include "service/config/yaml/yaml_reader.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace longstream {
namespace {

using Json = nlohmann::json;

Json ScalarToJson(const std::string& text, bool quoted) {
  if (!quoted) {
    Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_number() || parsed.is_boolean() || parsed.is_null()) return parsed;
  }
  return text;
}

// The largest number of values that one ReadJson accepts. Aliases can make a short document long,
// or even endless.
constexpr int kMaxJsonValues = 4096;

// Converts a value to JSON. Every value reduces *values_left by one; at zero the result is null.
Json ToJson(const YAML::Node& node, int* values_left) {
  if (*values_left == 0) return nullptr;
  --*values_left;
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return ScalarToJson(node.Scalar(), node.Tag() == "!");
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const YAML::Node& entry : node) list.push_back(ToJson(entry, values_left));
      return list;
    }
    case YAML::NodeType::Map: {
      Json object = Json::object();
      for (const auto& entry : node) {
        object[entry.first.Scalar()] = ToJson(entry.second, values_left);
      }
      return object;
    }
    default:
      return nullptr;
  }
}

std::string Describe(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return absl::StrCat("'", node.Scalar(), "'");
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a map";
    default:
      return "nothing";
  }
}

}  // namespace

YamlNode::YamlNode(std::shared_ptr<const YAML::Node> node, std::string origin, std::string path)
    : node_(std::move(node)),
      origin_(std::move(origin)),
      path_(std::move(path)),
      line_(node_->Mark().line) {}

absl::StatusOr<YamlNode> YamlNode::Parse(std::string_view text, std::string_view origin) {
  try {
    auto root = std::make_shared<const YAML::Node>(YAML::Load(std::string(text)));
    return YamlNode(std::move(root), std::string(origin), "");
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(View(origin), ":", error.mark.line + 1, ": not YAML: ", error.msg));
  }
}

absl::Status YamlNode::Error(std::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(Place(), ": ", View(message)));
}

std::string YamlNode::Place() const {
  return absl::StrCat(origin_, ":", line_ + 1, path_.empty() ? "" : ": ", path_);
}

absl::Status YamlNode::Expected(std::string_view what) const {
  return Error(absl::StrCat("expected ", View(what), ", found ", Describe(*node_)));
}

YamlNode YamlNode::Child(const YAML::Node& node, std::string path) const {
  return YamlNode(std::make_shared<const YAML::Node>(node), origin_, std::move(path));
}

YamlNode YamlNode::Value(const YAML::Node& key, const YAML::Node& value, std::string path) const {
  YamlNode node = Child(value, std::move(path));
  // yaml-cpp reports the line of the next text for an empty value.
  if (value.IsNull()) node.line_ = key.Mark().line;
  return node;
}

absl::Status YamlNode::ReadMap(std::initializer_list<std::pair<const char*, Reader>> keys) const {
  if (node_->IsNull()) return absl::OkStatus();
  if (!node_->IsMap()) return Expected("a map");
  std::set<std::string> seen;
  for (const auto& entry : *node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const YamlNode at_key = Child(entry.first, path_);
    const YamlNode value =
        Value(entry.first, entry.second, path_.empty() ? key : absl::StrCat(path_, ".", key));
    const auto* found = keys.begin();
    while (found != keys.end() && key != found->first) ++found;
    if (found == keys.end()) {
      std::vector<std::string> known;
      for (const auto& [name, reader] : keys) known.emplace_back(name);
      return at_key.Error(
          absl::StrCat("unknown key '", key, "'; expected one of: ", absl::StrJoin(known, ", ")));
    }
    if (!seen.insert(key).second) return at_key.Error(absl::StrCat("key '", key, "' is repeated"));
    if (absl::Status status = found->second(value); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status YamlNode::ReadEntries(const EntryReader& entry) const {
  if (!node_->IsMap()) return Expected("a map");
  std::set<std::string> seen;
  for (const auto& pair : *node_) {
    const YamlNode at_key = Child(pair.first, path_);
    if (!pair.first.IsScalar()) return at_key.Error("expected a text as the key");
    const std::string key = pair.first.Scalar();
    if (!seen.insert(key).second) return at_key.Error(absl::StrCat("key '", key, "' is repeated"));
    absl::Status status = entry(key, Value(pair.first, pair.second, absl::StrCat(path_, ".", key)));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status YamlNode::ReadList(const Reader& entry) const {
  if (!node_->IsSequence()) return Expected("a list");
  size_t index = 0;
  for (const YAML::Node& node : *node_) {
    const YamlNode child = Child(node, absl::StrCat(path_, "[", index++, "]"));
    if (absl::Status status = entry(child); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status YamlNode::Read(std::string* value) const {
  if (!node_->IsScalar()) return Expected("a text");
  *value = node_->Scalar();
  return absl::OkStatus();
}

absl::Status YamlNode::Read(uint64_t low, uint64_t high, uint64_t* value) const {
  uint64_t number = 0;
  if (!node_->IsScalar() || !absl::SimpleAtoi(node_->Scalar(), &number) || number < low ||
      number > high) {
    return Expected(absl::StrCat("a whole number from ", low, " to ", high));
  }
  *value = number;
  return absl::OkStatus();
}

absl::Status YamlNode::Read(uint64_t low, uint64_t high, uint32_t* value) const {
  uint64_t number = 0;
  if (absl::Status status = Read(low, high, &number); !status.ok()) return status;
  *value = static_cast<uint32_t>(number);
  return absl::OkStatus();
}

absl::Status YamlNode::ReadBytes(uint64_t* value) const {
  if (!node_->IsScalar()) return Expected("bytes such as 4096, 64MiB or 2GB");
  absl::StatusOr<uint64_t> bytes = ParseBytes(node_->Scalar());
  if (!bytes.ok()) return Error(absl::StrCat(bytes.status().message()));
  *value = *bytes;
  return absl::OkStatus();
}

absl::Status YamlNode::ReadDuration(absl::Duration low, absl::Duration high,
                                    absl::Duration* value) const {
  absl::Duration duration;
  if (!node_->IsScalar() || !absl::ParseDuration(node_->Scalar(), &duration) || duration < low ||
      duration > high) {
    return Expected(absl::StrCat("a time from ", absl::FormatDuration(low), " to ",
                                 absl::FormatDuration(high), ", such as 500ms, 30s or 1h30m"));
  }
  *value = duration;
  return absl::OkStatus();
}

absl::Status YamlNode::ReadOneOf(std::initializer_list<const char*> values,
                                 std::string* value) const {
  for (const char* candidate : values) {
    if (node_->IsScalar() && node_->Scalar() == candidate) return Read(value);
  }
  return Expected(absl::StrCat("one of ", absl::StrJoin(values, ", ")));
}

absl::Status YamlNode::ReadBool(bool* value) const {
  std::string text;
  absl::Status status = ReadOneOf({"true", "false"}, &text);
  *value = text == "true";
  return status;
}

absl::Status YamlNode::ReadJson(std::string* value) const {
  if (node_->IsNull()) return absl::OkStatus();
  if (!node_->IsMap()) return Expected("a map");
  int values_left = kMaxJsonValues + 1;
  const Json json = ToJson(*node_, &values_left);
  if (values_left == 0) {
    return Error(absl::StrCat("more than ", kMaxJsonValues, " values, aliases counted in full"));
  }
  *value = json.dump();
  return absl::OkStatus();
}

std::string JsonMember(std::string_view key, std::string_view value) {
  Json json = ScalarToJson(std::string(value), /*quoted=*/false);
  if (value.size() >= 2 && value.front() == '[' && value.back() == ']') {
    json = Json::array();
    const std::string inner(value.substr(1, value.size() - 2));
    for (absl::string_view element : absl::StrSplit(inner, ',', absl::SkipWhitespace())) {
      json.push_back(
          ScalarToJson(std::string(absl::StripAsciiWhitespace(element)), /*quoted=*/false));
    }
  }
  if (value.size() >= 2 && value.front() == '{' && value.back() == '}') {
    try {
      int values_left = kMaxJsonValues;
      json = ToJson(YAML::Load(std::string(value)), &values_left);
    } catch (const YAML::Exception&) {
      // Keep a value that is not YAML as a string. The backend refuses the string with an error
      // that names the key.
    }
  }
  return absl::StrCat(Json(std::string(key)).dump(), ":", json.dump());
}

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  static const auto* const units = new std::map<std::string, uint64_t>{{"", 1},
                                                                       {"b", 1},
                                                                       {"kb", 1000},
                                                                       {"mb", 1000'000},
                                                                       {"gb", 1000'000'000},
                                                                       {"kib", 1u << 10},
                                                                       {"mib", 1u << 20},
                                                                       {"gib", 1u << 30}};
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit =
      absl::AsciiStrToLower(absl::StripAsciiWhitespace(View(text.substr(digits))));
  const auto found = units->find(unit);
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  if (digits == 0 || found == units->end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected bytes such as 4096, 64MiB or 2GB, found '", View(text), "'"));
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(View(text.substr(0, digits)), &number) || number > kMost / found->second) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMost, " bytes, found '", View(text), "'"));
  }
  return number * found->second;
}

}  // namespace longstream
