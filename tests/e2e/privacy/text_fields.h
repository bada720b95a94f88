// The texts that requests can have, each with a canary of its own.
#ifndef LONGSTREAM_TESTS_E2E_PRIVACY_TEXT_FIELDS_H_
#define LONGSTREAM_TESTS_E2E_PRIVACY_TEXT_FIELDS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longstream {

inline constexpr char kCanary[] = "CANARY-5d81e3";

// All canaries have the same length, so none is a part of another one.
inline std::string Canary(size_t number) { return absl::StrCat(kCanary, "-", 10000 + number, "-"); }

// The fields from a request down to a text.
using Path = std::vector<const google::protobuf::FieldDescriptor*>;

inline std::string NameOf(const google::protobuf::MethodDescriptor& method, const Path& path) {
  std::string name = method.name();
  for (const google::protobuf::FieldDescriptor* field : path)
    absl::StrAppend(&name, ".", field->name());
  return name;
}

// Adds the paths of all texts below `path`, which leads to a message of type `message`.
inline void AddPaths(const google::protobuf::Descriptor& message,
                     std::set<const google::protobuf::Descriptor*> above, const Path& path,
                     std::vector<Path>* all) {
  if (!above.insert(&message).second) return;  // the type contains itself
  for (int i = 0; i < message.field_count(); ++i) {
    Path longer = path;
    longer.push_back(message.field(i));
    if (longer.back()->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
      all->push_back(longer);
    } else if (longer.back()->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      AddPaths(*longer.back()->message_type(), above, longer, all);
    }
  }
}

// Sets the text at the end of `path`, and calls set_usual(message) before for each message on the
// way. An empty path: only for `at`.
template <typename SetUsual>
void SetText(google::protobuf::Message* at, const Path& path, const std::string& text,
             const SetUsual& set_usual) {
  set_usual(at);
  for (const google::protobuf::FieldDescriptor* field : path) {
    const auto* const reflection = at->GetReflection();
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
      field->is_repeated() ? reflection->AddString(at, field, text)
                           : reflection->SetString(at, field, text);
      return;
    }
    at = field->is_repeated() ? reflection->AddMessage(at, field)
                              : reflection->MutableMessage(at, field);
    set_usual(at);
  }
}

inline std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `names`: the canaries, and the fields that had them.
inline void ExpectNoCanary(const std::string& text, const std::string& where,
                           const std::map<std::string, std::string>& names) {
  for (size_t at = text.find(kCanary); at != std::string::npos; at = text.find(kCanary, at + 1)) {
    const auto name = names.upper_bound(text.substr(at, 40));
    ADD_FAILURE() << where << " has the text of "
                  << (name == names.begin() ? "?" : std::prev(name)->second);
  }
}

// Files whose paths begin with `except` do not count.
inline void ExpectNoFileHasCanary(const std::filesystem::path& folder, const std::string& except,
                                  const std::map<std::string, std::string>& names) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().string().starts_with(except)) continue;
    ExpectNoCanary(BytesOf(entry.path()), entry.path().string(), names);
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_PRIVACY_TEXT_FIELDS_H_
