// Makes the tree in callbacks of the JSON parser, so that numbers keep their text and limits hold
// while it is read.
#include "service/grammar/formats/schema/schema_document.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/format_error.h"
#include "service/grammar/formats/json_text.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

using Kind = SchemaValue::Kind;

constexpr size_t kMostSchemaBytes = 1 << 20;
constexpr size_t kMostNestedValues = 100;
constexpr size_t kMostSchemaValues = 100'000;
// Smaller objects are searched from member to member.
constexpr size_t kIndexedMembers = 16;

// A name as it is written in a JSON pointer.
std::string Token(std::string_view name) {
  std::string token;
  for (const char c : Shown(name, 60)) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token += c;
    }
  }
  return token;
}

std::optional<std::string> DecodePercents(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned byte = 0;
    const char* const begin = text.data() + i + 1;
    if (text.size() - i < 3) return std::nullopt;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

// The name that a token of a JSON pointer stands for.
std::optional<std::string> NameOf(std::string_view token) {
  std::string name;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '~') {
      name += token[i];
      continue;
    }
    ++i;
    if (i == token.size() || (token[i] != '0' && token[i] != '1')) return std::nullopt;
    name += token[i] == '0' ? '~' : '/';
  }
  return name;
}

}  // namespace

// The callbacks of nlohmann's JSON parser. The library prescribes their names.
class SchemaReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SchemaReader(std::deque<SchemaValue>* values, uint32_t first_number)
      : values_(*values), number_(first_number) {}

  bool null() override { return AddScalar(Kind::kNull, ""); }
  bool boolean(bool value) override {
    AddScalar(Kind::kBool, "");
    values_.back().boolean = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return AddScalar(Kind::kNumber, absl::StrCat(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return AddScalar(Kind::kNumber, absl::StrCat(value));
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return AddScalar(Kind::kNumber, text);
  }
  bool string(string_t& text) override { return AddScalar(Kind::kString, text); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return Open(Kind::kObject); }
  bool start_array(size_t /*size*/) override { return Open(Kind::kList); }
  bool key(string_t& name) override {
    name_ = name;
    return true;
  }
  bool end_object() override {
    CheckNames(open_.back());
    return Close();
  }
  bool end_array() override { return Close(); }
  bool parse_error(size_t /*at*/, const std::string& /*last*/,
                   const nlohmann::json::exception& error) override {
    std::string text = RepairUtf8(error.what());
    // It begins with the library's name of the error, in brackets.
    if (text.starts_with('[')) text.erase(0, text.find("] ") + 2);
    FailFormat("the schema is no JSON: " + Shown(text, 300));
  }

 private:
  SchemaValue& Add(Kind kind) {
    if (values_.size() == kMostSchemaValues) {
      FailFormat(absl::StrCat("the schema has more than ", kMostSchemaValues, " values"));
    }
    SchemaValue& value = values_.emplace_back();
    value.kind = kind;
    value.number = number_++;
    if (!open_.empty()) {
      SchemaValue& parent = *open_.back();
      value.parent = &parent;
      value.place = parent.members.size();
      parent.members.push_back({std::exchange(name_, {}), &value});
    }
    return value;
  }

  bool AddScalar(Kind kind, std::string text) {
    SchemaValue& value = Add(kind);
    value.weight = 1 + text.size() / 16;
    value.text = std::move(text);
    if (!open_.empty()) open_.back()->weight += value.weight;
    return true;
  }

  bool Close() {
    const size_t weight = ++open_.back()->weight;
    open_.pop_back();
    if (!open_.empty()) open_.back()->weight += weight;
    return true;
  }

  bool Open(Kind kind) {
    if (open_.size() == kMostNestedValues) {
      FailFormat(absl::StrCat("the schema is nested deeper than ", kMostNestedValues, " levels"));
    }
    open_.push_back(&Add(kind));
    return true;
  }

  // Refuses two members of one name, and makes the index of a large object.
  static void CheckNames(SchemaValue* object) {
    auto index = std::make_unique<absl::flat_hash_map<std::string_view, size_t>>();
    for (const SchemaValue::Member& member : object->members) {
      if (!index->try_emplace(member.name, index->size()).second) {
        FailSchema(*object, absl::StrCat("two members have the name '", Shown(member.name), "'"));
      }
    }
    if (object->members.size() > kIndexedMembers) object->index = std::move(index);
  }

  std::deque<SchemaValue>& values_;
  uint32_t number_;
  std::vector<SchemaValue*> open_;
  std::string name_;
};

void FailSchema(const SchemaValue& value, std::string_view text) {
  FailFormat(absl::StrCat(value.Pointer(), ": ", std::string(text)));
}

const SchemaValue* SchemaValue::Find(std::string_view name) const {
  if (index != nullptr) {
    const auto found = index->find(name);
    return found == index->end() ? nullptr : members[found->second].value;
  }
  if (kind != Kind::kObject) return nullptr;
  for (const Member& member : members) {
    if (member.name == name) return member.value;
  }
  return nullptr;
}

std::string SchemaValue::Pointer() const {
  constexpr size_t kMostShown = 400;
  std::string pointer;
  for (const SchemaValue* value = this; value->parent != nullptr; value = value->parent) {
    const bool in_list = value->parent->IsList();
    const std::string token =
        in_list ? absl::StrCat(value->place) : Token(value->parent->members[value->place].name);
    if (pointer.size() + token.size() > kMostShown) return absl::StrCat("#/...", pointer);
    pointer = absl::StrCat("/", token, pointer);
  }
  return "#" + pointer;
}

std::string SchemaValue::Text() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kNumber:
      return text;
    case Kind::kString:
      return JsonString(text);
    default:
      break;
  }
  std::string json = IsList() ? "[" : "{";
  for (size_t i = 0; i < members.size(); ++i) {
    if (i > 0) json += ',';
    if (IsObject()) json += JsonString(members[i].name) + ":";
    json += members[i].value->Text();
  }
  return json + (IsList() ? "]" : "}");
}

SchemaDocument::SchemaDocument(std::string_view json, uint32_t first_number) {
  if (json.size() > kMostSchemaBytes) {
    FailFormat(
        absl::StrCat("the schema has ", json.size(), " bytes, more than ", kMostSchemaBytes));
  }
  // The parser takes it for the end of the text.
  if (json.find('\0') != std::string_view::npos) FailFormat("the schema has a byte 0");
  SchemaReader reader(&values_, first_number);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
}

const SchemaValue* SchemaDocument::Resolve(std::string_view reference) const {
  if (!reference.starts_with('#')) return nullptr;
  const std::optional<std::string> decoded = DecodePercents(reference.substr(1));
  if (!decoded.has_value()) return nullptr;
  std::string_view rest = *decoded;
  const SchemaValue* value = &root();
  while (value != nullptr && !rest.empty()) {
    if (!rest.starts_with('/')) return nullptr;
    rest.remove_prefix(1);
    const std::string_view token = rest.substr(0, rest.find('/'));
    rest.remove_prefix(token.size());
    if (value->IsList()) {
      size_t place = 0;
      const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), place);
      const bool is_place = error == std::errc() && end == token.data() + token.size() &&
                            place < value->members.size() && (token[0] != '0' || token == "0");
      value = is_place ? value->members[place].value : nullptr;
    } else {
      const std::optional<std::string> name = NameOf(token);
      value = name.has_value() ? value->Find(*name) : nullptr;
    }
  }
  return value;
}

}  // namespace longstream
