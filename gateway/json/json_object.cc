// The limits of JSON, and the checks of its fields.
#include "gateway/json/json_object.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace longstream::gateway {
namespace {

constexpr size_t kMostDepth = 100;
constexpr size_t kMostParts = 200'000;  // objects, arrays, members and strings
// Other values, such as token ids. Each one takes 16 bytes, in an array that doubles as it grows.
constexpr size_t kMostValues = 1'000'000;
// The members of an object keep their order, so each one is compared with all before it.
constexpr size_t kMostMembers = 1024;
constexpr size_t kMostShown = 60;
constexpr size_t kMostReason = 300;  // bytes of the parser's error, which may quote the whole text

// Cuts a text to `most` bytes and "...", between two characters.
std::string Cut(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text + "...";
}

std::string WithArticle(const char* type) {
  const std::string name = type;
  return (name == "object" || name == "array" ? "an " : "a ") + name;
}

// Counts the parts of a JSON text without making them. (Json::parse with a callback looks at all
// elements of an array after each of its objects.) Throws BadRequest if there are too many.
class PartCounter final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return AddValue(); }
  bool boolean(bool /*value*/) override { return AddValue(); }
  bool number_integer(int64_t /*value*/) override { return AddValue(); }
  bool number_unsigned(uint64_t /*value*/) override { return AddValue(); }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return AddValue(); }
  bool string(std::string& /*value*/) override { return AddPart(); }
  bool binary(Json::binary_t& /*value*/) override { return AddPart(); }
  bool start_object(size_t /*size*/) override { return Start(); }
  bool key(std::string& /*name*/) override {
    if (++members_.back() > kMostMembers) TooMany("members in one object", kMostMembers);
    return AddPart();
  }
  bool end_object() override { return End(); }
  bool start_array(size_t /*size*/) override { return Start(); }
  bool end_array() override { return End(); }
  bool parse_error(size_t /*at*/, const std::string& /*last*/,
                   const Json::exception& /*error*/) override {
    return false;  // Json::parse names the error
  }

 private:
  [[noreturn]] static void TooMany(const char* what, size_t most) {
    throw BadRequest("", "the JSON has more than " + std::to_string(most) + " " + what);
  }

  bool AddValue() {
    if (++values_ > kMostValues) TooMany("numbers", kMostValues);
    return true;
  }
  bool AddPart() {
    if (++parts_ > kMostParts) TooMany("objects, arrays, members and strings", kMostParts);
    return true;
  }
  bool Start() {
    if (members_.size() >= kMostDepth) TooMany("levels", kMostDepth);
    members_.push_back(0);
    return AddPart();
  }
  bool End() {
    members_.pop_back();
    return true;
  }

  size_t parts_ = 0;
  size_t values_ = 0;
  std::vector<size_t> members_;  // of the objects and arrays that are open
};

// Absent: the value is no whole number of 64 bits.
std::optional<int64_t> WholeNumber(const Json& value) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    return number <= kMost ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();  // some clients write 100 as 100.0
  if (std::floor(number) != number || number < -kBeyond || number >= kBeyond) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

Json ParseJson(std::string_view text) {
  // The parser takes it for the end of the text.
  if (text.find('\0') != std::string_view::npos) throw BadRequest("", "the body has a byte 0");
  PartCounter counter;
  Json::sax_parse(text, &counter);
  try {
    Json value = Json::parse(text);
    if (!value.is_object()) throw BadRequest("", "the body is no JSON object");
    return value;
  } catch (const Json::exception& error) {
    std::string reason = error.what();
    // It begins with the parser's own name of the error, in brackets.
    if (reason.starts_with('[')) reason.erase(0, reason.find("] ") + 2);
    throw BadRequest("", "this is no valid JSON: " + Cut(std::move(reason), kMostReason));
  }
}

std::string JsonToText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Shown(const Json& value) { return Cut(JsonToText(value), kMostShown); }

JsonObject::JsonObject(const Json& value, std::string path)
    : value_(value), path_(std::move(path)) {
  if (!value.is_object()) {
    throw BadRequest(path_, "expected an object, found " + WithArticle(value.type_name()));
  }
}

std::string JsonObject::PathOf(const std::string& name) const {
  std::string shown = Cut(name, kMostShown);  // it may be a name that the client has made up
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return path_.empty() ? shown : path_ + "." + shown;
}

const Json* JsonObject::Find(const std::string& name) {
  read_.insert(name);
  const auto found = value_.find(name);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> JsonObject::Bool(const std::string& name) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    throw BadRequest(PathOf(name), "expected true or false, found " + Shown(*value));
  }
  return value->get<bool>();
}

std::optional<int64_t> JsonObject::Integer(const std::string& name, int64_t least, int64_t most) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> whole = WholeNumber(*value);
  if (!whole.has_value() || *whole < least || *whole > most) {
    throw BadRequest(PathOf(name), "expected a whole number in " + std::to_string(least) + " ... " +
                                       std::to_string(most) + ", found " + Shown(*value));
  }
  return whole;
}

std::optional<double> JsonObject::Number(const std::string& name, double least, double most) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= least) || !(value->get<double>() <= most)) {
    throw BadRequest(PathOf(name), "expected a number in " + Json(least).dump() + " ... " +
                                       Json(most).dump() + ", found " + Shown(*value));
  }
  return value->get<double>();
}

std::optional<std::string> JsonObject::Text(const std::string& name) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    throw BadRequest(PathOf(name), "expected a string, found " + Shown(*value));
  }
  return value->get<std::string>();
}

std::string JsonObject::RequiredText(const std::string& name) {
  std::optional<std::string> text = Text(name);
  if (!text.has_value()) throw BadRequest(PathOf(name), "the text is missing");
  return *std::move(text);
}

void JsonObject::Ignore(std::initializer_list<const char*> names) {
  for (const char* const name : names) read_.insert(name);
}

void JsonObject::Refuse(const std::string& name, const std::string& reason, const Json& allowed) {
  const Json* const value = Find(name);
  if (value == nullptr || (!allowed.is_null() && *value == allowed)) return;
  throw BadRequest(PathOf(name), reason);
}

void JsonObject::ExpectAllRead() const {
  for (const auto& [name, value] : value_.items()) {
    if (value.is_null() || read_.count(name) > 0) continue;
    throw BadRequest(PathOf(name), "this field is not known here");
  }
}

}  // namespace longstream::gateway
