// Reads YAML documents strictly: every key must be known and every value must have the right type.
// Errors name the line.
#ifndef LONGSTREAM_SERVICE_CONFIG_YAML_YAML_READER_H_
#define LONGSTREAM_SERVICE_CONFIG_YAML_YAML_READER_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace YAML {  // NOLINT(readability-identifier-naming): yaml-cpp's
class Node;
}  // namespace YAML

namespace longstream {

// A text for functions of Abseil, whose string_view can be another type than std::string_view.
inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// A value in a document, with its path ("models[0].name"). Every error is INVALID_ARGUMENT with the
// message "ORIGIN:LINE: PATH: expected ..., found ...".
class YamlNode {
 public:
  using Reader = std::function<absl::Status(const YamlNode& value)>;

  static absl::StatusOr<YamlNode> Parse(std::string_view text, std::string_view origin);

  // Calls the reader of each key that is present. An unknown or repeated key is an error. An empty
  // document counts as an empty map.
  absl::Status ReadMap(std::initializer_list<std::pair<const char*, Reader>> keys) const;
  // Calls the reader for each key of a map that may have any keys. A repeated key is an error.
  using EntryReader = std::function<absl::Status(const std::string& key, const YamlNode& value)>;
  absl::Status ReadEntries(const EntryReader& entry) const;
  absl::Status ReadList(const Reader& entry) const;

  absl::Status Read(std::string* value) const;
  absl::Status Read(uint64_t low, uint64_t high, uint32_t* value) const;
  absl::Status Read(uint64_t low, uint64_t high, uint64_t* value) const;
  absl::Status ReadBytes(uint64_t* value) const;  // "64MiB"
  // "90s", "1h30m"
  absl::Status ReadDuration(absl::Duration low, absl::Duration high, absl::Duration* value) const;
  absl::Status ReadOneOf(std::initializer_list<const char*> values, std::string* value) const;
  absl::Status ReadBool(bool* value) const;  // "true" or "false"
  // Reads a map of scalars, lists and maps as a JSON object. Unquoted numbers, true and false keep
  // their type. An alias counts as all the values that it stands for, so a document that refers to
  // itself is an error.
  absl::Status ReadJson(std::string* value) const;

  absl::Status Error(std::string_view message) const;
  // Errors begin with this place: "ORIGIN:LINE: PATH".
  std::string Place() const;

 private:
  YamlNode(std::shared_ptr<const YAML::Node> node, std::string origin, std::string path);

  absl::Status Expected(std::string_view what) const;
  YamlNode Child(const YAML::Node& node, std::string path) const;
  // Returns the value of `key`. If the value is empty, errors name the line of the key.
  YamlNode Value(const YAML::Node& key, const YAML::Node& value, std::string path) const;

  std::shared_ptr<const YAML::Node> node_;  // shared, because the node's type is incomplete here
  std::string origin_;
  std::string path_;
  int line_;  // counts from 0
};

// Returns the member `"key":value` of a JSON object. Numbers, true, false and null keep their type.
// [A,B,...] becomes a list of such values, {key: A, ...} becomes an object with YAML's rules, and
// anything else becomes a string.
std::string JsonMember(std::string_view key, std::string_view value);

// Reads a number of bytes, such as "64MiB", "2GB" or "4096".
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_YAML_YAML_READER_H_
