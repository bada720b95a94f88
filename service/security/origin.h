// Origins of web pages.
#ifndef LONGSTREAM_SERVICE_SECURITY_ORIGIN_H_
#define LONGSTREAM_SERVICE_SECURITY_ORIGIN_H_

#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// Stands for every origin.
inline constexpr char kAnyOrigin[] = "*";

// The error of an origin; absent: there is none. An origin is kAnyOrigin, or a scheme, a host and
// perhaps a port, such as "https://chat.example.com:8443", as browsers write it in the header
// Origin.
std::optional<std::string> OriginError(std::string_view origin);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_ORIGIN_H_
