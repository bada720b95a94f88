// Views of JSON values. Views report unexpected values and the places of these values.
#include "service/tokenizer/files/json_view.h"

#include "absl/strings/str_cat.h"
#include "service/tokenizer/files/model_file.h"

namespace longstream {

absl::StatusOr<JsonFile> JsonFile::Read(const std::filesystem::path& path) {
  JsonFile file;
  file.path_ = path.string();
  const absl::StatusOr<std::string> text = ReadModelFile(path);
  if (!text.ok()) return text.status();
  try {
    file.root_ = nlohmann::json::parse(*text);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file.path_, ": not JSON: ", error.what()));
  }
  return file;
}

JsonView::JsonView(JsonFile& file) : JsonView(&file, "", &file.root_) {}

JsonView::JsonView(JsonFile* file, std::string key, const nlohmann::json* value)
    : file_(file),
      key_(std::move(key)),
      value_(value == nullptr || value->is_null() ? nullptr : value) {}

JsonView JsonView::operator[](std::string_view key) const {
  const std::string path =
      key_.empty() ? std::string(key) : absl::StrCat(key_, ".", std::string(key));
  if (present() && !value_->is_object()) FailExpected("an object");
  if (!is_object()) return {file_, path, nullptr};
  const auto member = value_->find(key);
  return {file_, path, member == value_->end() ? nullptr : &*member};
}

bool JsonView::Bool(bool otherwise) const {
  if (!present()) return otherwise;
  if (!value_->is_boolean()) {
    FailExpected("true or false");
    return otherwise;
  }
  return value_->get<bool>();
}

std::string JsonView::String(std::string_view otherwise) const {
  return present() ? String() : std::string(otherwise);
}

std::string JsonView::String() const {
  if (!is_string()) {
    FailExpected("a string");
    return "";
  }
  return value_->get<std::string>();
}

int32_t JsonView::Id(int vocab_size) const {
  if (present() && value_->is_number_unsigned()) {
    const auto id = value_->get<uint64_t>();
    if (id < static_cast<uint64_t>(vocab_size)) return static_cast<int32_t>(id);
  }
  FailExpected(absl::StrCat("an id below ", vocab_size, ", the model's vocabulary"));
  return 0;
}

double JsonView::Number() const {
  if (present() && value_->is_number()) return value_->get<double>();
  FailExpected("a number");
  return 0;
}

size_t JsonView::Size() const {
  if (present() && value_->is_number_unsigned()) return value_->get<size_t>();
  FailExpected("an integer that is not negative");
  return 0;
}

std::vector<JsonView> JsonView::Elements() const {
  std::vector<JsonView> elements;
  if (!present()) return elements;
  if (!value_->is_array()) {
    FailExpected("an array");
    return elements;
  }
  for (size_t i = 0; i < value_->size(); ++i) {
    elements.push_back({file_, absl::StrCat(key_, "[", i, "]"), &(*value_)[i]});
  }
  return elements;
}

std::vector<std::pair<std::string, JsonView>> JsonView::Members() const {
  std::vector<std::pair<std::string, JsonView>> members;
  if (!present()) return members;
  if (!value_->is_object()) {
    FailExpected("an object");
    return members;
  }
  for (const auto& [key, value] : value_->items()) {
    members.emplace_back(key, JsonView(file_, absl::StrCat(key_, ".", key), &value));
  }
  return members;
}

void JsonView::FailExpected(const std::string& expected) const {
  Report(absl::StatusCode::kInvalidArgument,
         absl::StrCat("expected ", expected, ", found ", Found()));
}

void JsonView::FailUnsupported(const std::string& what) const {
  Report(absl::StatusCode::kUnimplemented, absl::StrCat(what, " is not supported"));
}

void JsonView::Fail(const std::string& sentence) const {
  Report(absl::StatusCode::kInvalidArgument, sentence);
}

void JsonView::Report(absl::StatusCode code, const std::string& sentence) const {
  if (!file_->status_.ok()) return;
  const std::string where = key_.empty() ? "" : absl::StrCat(key_, ": ");
  file_->status_ = absl::Status(code, absl::StrCat(file_->path_, ": ", where, sentence));
}

std::string JsonView::Found() const {
  if (!present()) return "nothing";
  // For a large value, name only its type. Replace bytes that are not UTF-8, because dump() would
  // throw.
  if (value_->is_object() || value_->is_array()) {
    return absl::StrCat(value_->is_object() ? "an object" : "an array", " of ", value_->size());
  }
  constexpr size_t kShown = 80;
  const std::string text = value_->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kShown ? text : absl::StrCat(text.substr(0, kShown), "…");
}

}  // namespace longstream
