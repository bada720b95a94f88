// The limits of JSON, and the checks of its fields.
#include "gateway/json/json_object.h"

#include <cmath>
#include <utility>
#include <vector>

namespace longstream::gateway {
namespace {

constexpr size_t kMostDepth = 100;
constexpr size_t kMostParts = 200'000;  // objects, arrays and members
// The members of an object keep their order, so each one is compared with all before it.
constexpr size_t kMostMembers = 1024;
constexpr size_t kMostShown = 60;

std::string WithArticle(const char* type) {
  const std::string name = type;
  return (name == "object" || name == "array" ? "an " : "a ") + name;
}

// Counts the parts of a JSON text while it is parsed.
class PartCount {
 public:
  // Throws BadRequest if there are too many.
  void Add(int depth, Json::parse_event_t event) {
    const bool is_object = event == Json::parse_event_t::object_start;
    const bool is_key = event == Json::parse_event_t::key;
    if (event == Json::parse_event_t::object_end) members_.pop_back();
    if (is_object) members_.push_back(0);
    if (!is_object && !is_key && event != Json::parse_event_t::array_start) return;
    if (static_cast<size_t>(depth) > kMostDepth) TooMany("levels", kMostDepth);
    if (++parts_ > kMostParts) TooMany("objects, arrays and members", kMostParts);
    if (is_key && ++members_.back() > kMostMembers) TooMany("members in one object", kMostMembers);
  }

 private:
  [[noreturn]] static void TooMany(const char* what, size_t most) {
    throw BadRequest("", "the JSON has more than " + std::to_string(most) + " " + what);
  }

  size_t parts_ = 0;
  std::vector<size_t> members_;  // of the objects that are open
};

}  // namespace

Json ParseJson(std::string_view text) {
  PartCount parts;
  const auto count = [&parts](int depth, Json::parse_event_t event, Json& /*value*/) {
    parts.Add(depth, event);
    return true;
  };
  try {
    Json value = Json::parse(text, count);
    if (!value.is_object()) throw BadRequest("", "the body is no JSON object");
    return value;
  } catch (const Json::exception& error) {
    throw BadRequest("", std::string("the body is no valid JSON: ") + error.what());
  }
}

std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMostShown) return text;
  size_t end = kMostShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

JsonObject::JsonObject(const Json& value, std::string path)
    : value_(value), path_(std::move(path)) {
  if (!value.is_object()) {
    throw BadRequest(path_, "expected an object, found " + WithArticle(value.type_name()));
  }
}

std::string JsonObject::PathOf(const std::string& name) const {
  return path_.empty() ? name : path_ + "." + name;
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
  const std::string range = std::to_string(least) + " ... " + std::to_string(most);
  // Some clients write 100 as 100.0.
  const bool is_whole =
      value->is_number_integer() ||
      (value->is_number_float() && std::floor(value->get<double>()) == value->get<double>());
  if (!is_whole) {
    throw BadRequest(PathOf(name),
                     "expected a whole number in " + range + ", found " + Shown(*value));
  }
  const double rough = value->get<double>();
  if (rough < static_cast<double>(least) || rough > static_cast<double>(most)) {
    throw BadRequest(PathOf(name), "expected a number in " + range + ", found " + Shown(*value));
  }
  return value->is_number_unsigned() ? static_cast<int64_t>(value->get<uint64_t>())
                                     : value->get<int64_t>();
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
