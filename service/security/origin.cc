#include "service/security/origin.h"

#include <algorithm>

namespace longstream {
namespace {

bool IsScheme(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
  });
}

// Browsers write names in lower case, and others in Punycode.
bool IsHostAndPort(std::string_view text) {
  return !text.empty() && text.front() != ':' && text.back() != ':' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_' || c == ':' || c == '[' || c == ']';
         });
}

}  // namespace

std::optional<std::string> OriginError(std::string_view origin) {
  if (origin == kAnyOrigin) return std::nullopt;
  const size_t scheme = std::min(origin.find("://"), origin.size());
  if (scheme < origin.size() && IsScheme(origin.substr(0, scheme)) &&
      IsHostAndPort(origin.substr(scheme + 3))) {
    return std::nullopt;
  }
  return "expected an origin in lower case such as https://chat.example.com or"
         " http://localhost:3000, without a path, or *; found '" +
         std::string(origin) + "'";
}

}  // namespace longstream
