// Parses the numbers of an address.
#include "service/security/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace longstream {

bool IsLoopback(std::string_view address) {
  std::string host(address.substr(0, address.rfind(':')));
  if (host == "localhost") return true;
  in_addr ipv4{};
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return (ntohl(ipv4.s_addr) >> 24) == 127;
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return false;
  host = host.substr(1, host.size() - 2);
  in6_addr ipv6{};
  return inet_pton(AF_INET6, host.c_str(), &ipv6) == 1 && IN6_IS_ADDR_LOOPBACK(&ipv6) != 0;
}

}  // namespace longstream
