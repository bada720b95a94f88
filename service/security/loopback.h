// Addresses that a network cannot read.
#ifndef LONGSTREAM_SERVICE_SECURITY_LOOPBACK_H_
#define LONGSTREAM_SERVICE_SECURITY_LOOPBACK_H_

#include <string_view>

namespace longstream {

// Whether only programs of this machine reach `address`, host:port. The host is localhost, an IPv4
// address or an IPv6 address in brackets; any other name is not resolved, and counts as remote.
bool IsLoopback(std::string_view address);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_LOOPBACK_H_
