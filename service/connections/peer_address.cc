// Reads the address of a peer.
#include "service/connections/peer_address.h"

#include <netinet/in.h>

namespace longstream {

std::string PeerKey(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in*>(&address)->sin_addr;
    return {reinterpret_cast<const char*>(&ip), sizeof(ip)};
  }
  if (address.ss_family != AF_INET6) return {};
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
  const char* const bytes = reinterpret_cast<const char*>(&ip);
  constexpr size_t kBytes = sizeof(in6_addr);
  if (IN6_IS_ADDR_V4MAPPED(&ip)) return {bytes + kBytes - sizeof(in_addr), sizeof(in_addr)};
  return {bytes, kBytes / 2};
}

}  // namespace longstream
