// Addresses that the server listens on.
#ifndef LONGSTREAM_SERVICE_CONFIG_ADDRESS_H_
#define LONGSTREAM_SERVICE_CONFIG_ADDRESS_H_

#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// Returns an error if `text` is not host:port. The check is here because gRPC and the metrics
// server accept almost any text (port 99999 becomes 34463).
std::optional<std::string> AddressError(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_ADDRESS_H_
