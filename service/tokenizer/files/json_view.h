// Reads a JSON file value by value. The first unexpected value becomes an error message with the
// file, the key, and what was expected and found. Reading continues with defaults. So the code of a
// reader follows the layout of its file, and checks for an error once, at the end.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_JSON_VIEW_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_JSON_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace longstream {

// A JSON file in memory. Views point into it, so it must outlive them.
class JsonFile {
 public:
  // INVALID_ARGUMENT: the file cannot be read or is not JSON; the message says where.
  static absl::StatusOr<JsonFile> Read(const std::filesystem::path& path);

  // The first error that a view reported, or OK.
  const absl::Status& status() const { return status_; }

 private:
  friend class JsonView;

  std::string path_;
  nlohmann::json root_;
  absl::Status status_;
};

// A value of the file and its key, such as "model.vocab". Cheap to copy.
class JsonView {
 public:
  // Views the root of a file.
  explicit JsonView(JsonFile& file);

  // Whether the value is neither absent nor null.
  bool present() const { return value_ != nullptr; }
  bool is_string() const { return present() && value_->is_string(); }
  bool is_object() const { return present() && value_->is_object(); }
  bool is_array() const { return present() && value_->is_array(); }

  // Returns the member `key` of an object. The result is not present if the object lacks the member
  // or is not present itself.
  JsonView operator[](std::string_view key) const;

  // Returns the value, or `otherwise` if it is not present. A value of another type is an error.
  bool Bool(bool otherwise) const;
  std::string String(std::string_view otherwise) const;

  // Returns the value. It is an error if the value is not present.
  std::string String() const;
  int32_t Id(int vocab_size) const;  // an integer in [0, vocab_size)
  double Number() const;
  size_t Size() const;  // a non-negative integer

  // Return the elements of an array, or the members of an object in the order of their keys. The
  // result is empty if the value is not present.
  std::vector<JsonView> Elements() const;
  std::vector<std::pair<std::string, JsonView>> Members() const;

  // Reports "expected <expected>, found <this value>".
  void FailExpected(const std::string& expected) const;
  // Reports that `what` is not supported.
  void FailUnsupported(const std::string& what) const;
  // Reports the error message `sentence` about this value.
  void Fail(const std::string& sentence) const;

 private:
  JsonView(JsonFile* file, std::string key, const nlohmann::json* value);
  void Report(absl::StatusCode code, const std::string& sentence) const;
  std::string Found() const;

  JsonFile* file_;
  std::string key_;
  const nlohmann::json* value_;  // nullptr: absent or null
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_JSON_VIEW_H_
