// Reads the fields of a JSON object from a client. Each error names the field, its value and what
// is allowed.
#ifndef LONGSTREAM_GATEWAY_JSON_JSON_OBJECT_H_
#define LONGSTREAM_GATEWAY_JSON_JSON_OBJECT_H_

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace longstream::gateway {

using Json = nlohmann::ordered_json;

// A request is wrong. `param`: the field; empty: the request as a whole.
class BadRequest : public std::invalid_argument {
 public:
  BadRequest(std::string param, const std::string& text)
      : std::invalid_argument((param.empty() ? "" : param + ": ") + text),
        param_(std::move(param)) {}

  const std::string& param() const { return param_; }

 private:
  std::string param_;
};

// Parses the body of a request, with limits on depth and on the number of values, because a small
// text can need much memory. Throws BadRequest.
Json ParseJson(std::string_view text);

// The value as text. Bytes that are no UTF-8 become U+FFFD.
std::string JsonToText(const Json& value);

// The value as text, cut to a length that fits into an error.
std::string Shown(const Json& value);

// One object of a request. A member that is null counts as absent. Throws BadRequest.
class JsonObject {
 public:
  // `path`: of the object in the request, such as "stream_options"; empty: the request itself.
  JsonObject(const Json& value, std::string path);

  // The value, or nullptr if it is absent. Counts as read.
  const Json* Find(const std::string& name);

  std::optional<bool> Bool(const std::string& name);
  // In [least, most].
  std::optional<int64_t> Integer(const std::string& name, int64_t least, int64_t most);
  std::optional<double> Number(const std::string& name, double least, double most);
  std::optional<std::string> Text(const std::string& name);
  // A text that must be there.
  std::string RequiredText(const std::string& name);

  // Marks members as read that change nothing here.
  void Ignore(std::initializer_list<const char*> names);
  // The feature of this field is not offered: refuses every value but absent ones and `allowed`.
  void Refuse(const std::string& name, const std::string& reason, const Json& allowed = nullptr);
  // Refuses a member that was not read.
  void ExpectAllRead() const;

  std::string PathOf(const std::string& name) const;

 private:
  const Json& value_;
  const std::string path_;
  std::set<std::string> read_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_JSON_JSON_OBJECT_H_
