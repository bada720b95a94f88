// Resolves the address, then binds each result.
#include "service/connections/listening_sockets.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace longstream {
namespace {

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  int family() const { return bytes.ss_family; }
  in_port_t& port() {
    return family() == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bytes)->sin6_port
                                : reinterpret_cast<sockaddr_in*>(&bytes)->sin_port;
  }
  bool IsWildcard() const {
    if (family() == AF_INET) {
      return reinterpret_cast<const sockaddr_in*>(&bytes)->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr);
  }
};

SocketAddress Wildcard(int family, in_port_t port) {
  SocketAddress address;
  address.bytes.ss_family = static_cast<sa_family_t>(family);
  address.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  address.port() = port;
  return address;
}

absl::Status CannotBind(const std::string& address, const char* reason) {
  return absl::UnavailableError(absl::StrCat("cannot bind ", address, ": ", reason));
}

// Sets `reason` to a text if the name cannot be resolved.
std::vector<SocketAddress> Resolve(const std::string& address, const char** reason) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    // A zone may be written as in a URI: fe80::1%25eth0.
    host = absl::StrReplaceAll(host.substr(1, host.size() - 2), {{"%25", "%"}});
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    *reason = gai_strerror(error);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (; found != nullptr; found = found->ai_next) {
    SocketAddress& one = addresses.emplace_back();
    std::memcpy(&one.bytes, found->ai_addr, found->ai_addrlen);
    one.size = found->ai_addrlen;
  }
  return addresses;
}

bool SetOption(const Descriptor& socket, int level, int option, int value) {
  return setsockopt(socket.number(), level, option, &value, sizeof(value)) == 0;
}

// Returns no descriptor, and sets errno, if the address cannot be bound.
Descriptor Open(const SocketAddress& address, absl::Duration acknowledgement_timeout) {
  Descriptor opened(
      socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!opened.open()) return {};
  // Without SO_REUSEADDR a restarted server could not bind its port while connections of the server
  // before it are in TIME_WAIT. SO_REUSEPORT stays off: a second server on the same port must fail
  // to start, and not take a share of the calls.
  bool ok = SetOption(opened, SOL_SOCKET, SO_REUSEADDR, 1);
  ok = SetOption(opened, IPPROTO_TCP, TCP_NODELAY, 1) && ok;
  if (address.family() == AF_INET6) ok = SetOption(opened, IPPROTO_IPV6, IPV6_V6ONLY, 0) && ok;
  if (acknowledgement_timeout > absl::ZeroDuration()) {
    ok = SetOption(opened, IPPROTO_TCP, TCP_USER_TIMEOUT,
                   static_cast<int>(absl::ToInt64Milliseconds(acknowledgement_timeout))) &&
         ok;
  }
  ok = ok &&
       bind(opened.number(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0;
  ok = ok && listen(opened.number(), SOMAXCONN) == 0;
  if (ok) return opened;
  const int error = errno;
  opened.Close();
  errno = error;
  return {};
}

// Opens one socket for IPv4 and IPv6, or a socket for IPv4 if the machine has no IPv6.
Descriptor OpenWildcard(in_port_t port, absl::Duration acknowledgement_timeout) {
  Descriptor both = Open(Wildcard(AF_INET6, port), acknowledgement_timeout);
  return both.open() ? std::move(both) : Open(Wildcard(AF_INET, port), acknowledgement_timeout);
}

in_port_t PortOf(const Descriptor& socket) {
  SocketAddress bound;
  bound.size = sizeof(bound.bytes);
  getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound.bytes), &bound.size);
  return bound.port();
}

}  // namespace

absl::StatusOr<ListeningSockets> Listen(const std::string& address,
                                        absl::Duration acknowledgement_timeout) {
  const char* reason = nullptr;
  std::vector<SocketAddress> addresses = Resolve(address, &reason);
  if (reason != nullptr) return CannotBind(address, reason);
  ListeningSockets listening;
  in_port_t port = 0;
  for (SocketAddress& one : addresses) {
    if (one.port() == 0) one.port() = port;  // the port that the first socket got
    Descriptor opened = one.IsWildcard() ? OpenWildcard(one.port(), acknowledgement_timeout)
                                         : Open(one, acknowledgement_timeout);
    if (!opened.open()) {
      if (reason == nullptr) reason = std::strerror(errno);
      continue;
    }
    port = PortOf(opened);
    listening.sockets.push_back(std::move(opened));
  }
  if (listening.sockets.empty()) {
    return CannotBind(address, reason == nullptr ? "the name has no address" : reason);
  }
  listening.port = ntohs(port);
  return listening;
}

}  // namespace longstream
