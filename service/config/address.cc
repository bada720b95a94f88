// Checks the form of an address.
#include "service/config/address.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longstream {

std::optional<std::string> AddressError(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, std::min(colon, text.size()));
  const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool host_ok = !host.empty() && host.find_first_of(" ,/") == std::string_view::npos &&
                       (bracketed || host.find_first_of(":[]") == std::string_view::npos);
  uint32_t number = 0;
  const bool port_ok = !port.empty() && port.size() <= 5 &&
                       port.find_first_not_of("0123456789") == std::string_view::npos &&
                       absl::SimpleAtoi(absl::string_view(port.data(), port.size()), &number) &&
                       number <= 65535;
  if (host_ok && port_ok) return std::nullopt;
  return absl::StrCat("expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at most ",
                      "65535, found '", absl::string_view(text.data(), text.size()), "'");
}

}  // namespace longstream
