// Requests and answers of HTTP/1.1.
#ifndef LONGSTREAM_GATEWAY_HTTP_HTTP_MESSAGE_H_
#define LONGSTREAM_GATEWAY_HTTP_HTTP_MESSAGE_H_

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream::gateway {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "GET"
  std::string path;     // "/v1/models": what precedes the query
  std::string query;    // "stream=true": what follows the '?'
  HttpHeaders headers;  // as in the request, but equal names together; the names are in lower case
  std::string body;
  bool http_1_0 = false;
  bool keep_alive = true;  // the client wants to send further requests on the connection

  // The value of the first header with this name, which is in lower case. Empty: there is none.
  std::string_view Header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
  // The value of a member of the query, as it was written. Empty: there is none.
  std::string_view Query(std::string_view name) const;
};

// Whether the query of a request asks for a stream.
inline bool WantsStream(const HttpRequest& request) {
  const std::string_view stream = request.Query("stream");
  return stream == "true" || stream == "1";
}

inline std::string_view HttpRequest::Query(std::string_view name) const {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view member = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), member.size() + 1));
    const size_t equals = std::min(member.find('='), member.size());
    if (member.substr(0, equals) != name) continue;
    return member.substr(std::min(member.size(), equals + 1));
  }
  return {};
}

// The text of a part of a path or of a query, which may have bytes as %XX.
inline std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool is_escape = text[i] == '%' && text.size() - i > 2 &&
                           std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    decoded += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  HttpHeaders headers = {};  // further ones
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_HTTP_MESSAGE_H_
