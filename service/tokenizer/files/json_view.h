// Reads a JSON file value by value; the first unexpected value becomes one sentence with file, key,
// expected and found. Reading goes on with defaults, so that the code that reads follows the layout
// of the file and asks for the error once, at the end.
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

// A JSON file in memory. Views point into it.
class JsonFile {
 public:
  // INVALID_ARGUMENT, with the place: the file cannot be read or is not JSON.
  static absl::StatusOr<JsonFile> Read(const std::filesystem::path& path);

  // OK, or the first error that a view reported.
  const absl::Status& status() const { return status_; }

 private:
  friend class JsonView;

  std::string path_;
  nlohmann::json root_;
  absl::Status status_;
};

// A value of the file together with its key, "model.vocab" for one. Cheap to copy.
class JsonView {
 public:
  // The root of a file, which must outlive the view.
  explicit JsonView(JsonFile& file);

  // Neither null nor left out.
  bool present() const { return value_ != nullptr; }
  bool is_string() const { return present() && value_->is_string(); }
  bool is_object() const { return present() && value_->is_object(); }
  bool is_array() const { return present() && value_->is_array(); }

  // The member of an object; not present if the object lacks it or is not present itself.
  JsonView operator[](std::string_view key) const;

  // The value, or `otherwise` if it is not present; another type is an error.
  bool Bool(bool otherwise) const;
  std::string String(std::string_view otherwise) const;

  // The value, which must be present.
  std::string String() const;
  int32_t Id(int vocab_size) const;  // an integer in [0, vocab_size)
  double Number() const;
  size_t Size() const;  // an integer, not negative

  // Elements of an array, members of an object in the order of their keys; none if not present.
  std::vector<JsonView> Elements() const;
  std::vector<std::pair<std::string, JsonView>> Members() const;

  // Reports that this value is not the expected one; `expected` ends "... expected <expected>".
  void FailExpected(const std::string& expected) const;
  // Reports that the value is understood, but not supported.
  void FailUnsupported(const std::string& what) const;
  // Reports a sentence about this value.
  void Fail(const std::string& sentence) const;

 private:
  JsonView(JsonFile* file, std::string key, const nlohmann::json* value);
  void Report(absl::StatusCode code, const std::string& sentence) const;
  std::string Found() const;

  JsonFile* file_;
  std::string key_;
  const nlohmann::json* value_;  // nullptr: null or left out
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_JSON_VIEW_H_
