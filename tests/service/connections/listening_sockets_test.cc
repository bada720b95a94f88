// Every kind of address that the configuration accepts.
#include "service/connections/listening_sockets.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "service/connections/peer_address.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

// Listens, connects a client of the family, and returns the accepted connection. Gives no
// descriptor if the client cannot connect.
Descriptor Accepted(const ListeningSockets& listening, int family) {
  try {
    const TcpClient client(listening.port, family);
    for (const Descriptor& socket : listening.sockets) {
      Descriptor accepted(accept4(socket.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (accepted.open()) return accepted;
    }
  } catch (const std::runtime_error&) {
  }
  return {};
}

int Option(const Descriptor& socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  getsockopt(socket.number(), level, option, &value, &size);
  return value;
}

ListeningSockets MustListen(const std::string& address) {
  absl::StatusOr<ListeningSockets> listening = Listen(address, absl::Seconds(20));
  EXPECT_TRUE(listening.ok()) << listening.status();
  return listening.ok() ? *std::move(listening) : ListeningSockets{};
}

TEST(ListenTest, AnIpv4Address) {
  const ListeningSockets listening = MustListen("127.0.0.1:0");
  ASSERT_EQ(listening.sockets.size(), 1u);
  EXPECT_GT(listening.port, 0);
  EXPECT_TRUE(Accepted(listening, AF_INET).open());
  EXPECT_FALSE(Accepted(listening, AF_INET6).open());
}

TEST(ListenTest, AnIpv6Address) {
  const ListeningSockets listening = MustListen("[::1]:0");
  EXPECT_TRUE(Accepted(listening, AF_INET6).open());
  EXPECT_FALSE(Accepted(listening, AF_INET).open());
}

// gRPC's own listener treats both wildcards alike.
TEST(ListenTest, AWildcardIsEveryAddressOfBothFamilies) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    const ListeningSockets listening = MustListen(address);
    EXPECT_TRUE(Accepted(listening, AF_INET).open()) << address;
    EXPECT_TRUE(Accepted(listening, AF_INET6).open()) << address;
  }
}

TEST(ListenTest, ANameListensOnAllItsAddressesWithOnePort) {
  const ListeningSockets listening = MustListen("localhost:0");
  EXPECT_TRUE(Accepted(listening, AF_INET).open());
  for (const Descriptor& socket : listening.sockets) {
    sockaddr_in6 bound{};  // the port has the same place in both families
    socklen_t size = sizeof(bound);
    ASSERT_EQ(getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
    EXPECT_EQ(ntohs(bound.sin6_port), listening.port);
  }
}

TEST(ListenTest, ErrorsNameTheAddressAndTheReason) {
  const ListeningSockets first = MustListen("127.0.0.1:0");
  const std::string taken = "127.0.0.1:" + std::to_string(first.port);
  EXPECT_EQ(Listen(taken, absl::ZeroDuration()).status(),
            absl::UnavailableError("cannot bind " + taken + ": Address already in use"));
  const std::string all = "0.0.0.0:" + std::to_string(first.port);
  EXPECT_FALSE(Listen(all, absl::ZeroDuration()).ok()) << "a part of the addresses is in use";
  EXPECT_EQ(Listen("192.0.2.1:0", absl::ZeroDuration()).status(),
            absl::UnavailableError("cannot bind 192.0.2.1:0: Cannot assign requested address"));
  const absl::Status unknown = Listen("no-such-host.invalid:0", absl::ZeroDuration()).status();
  EXPECT_TRUE(absl::IsUnavailable(unknown)) << unknown;
  EXPECT_EQ(unknown.message().find("cannot bind no-such-host.invalid:0: "), 0u) << unknown;
}

// The side that closes first keeps the address in TIME_WAIT. A restarted server must get it.
TEST(ListenTest, APortThatWasJustInUseIsFree) {
  int port = 0;
  {
    const ListeningSockets first = MustListen("127.0.0.1:0");
    port = first.port;
    const TcpClient client(port);
    Descriptor accepted(accept4(first.sockets.front().number(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted.open());
    accepted.Close();
    EXPECT_EQ(client.ReceiveAll(), "");
  }
  EXPECT_TRUE(Listen("127.0.0.1:" + std::to_string(port), absl::ZeroDuration()).ok());
}

// gRPC sets these options on its own listening sockets and expects them on connections.
TEST(ListenTest, ConnectionsInheritOptions) {
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    const Descriptor accepted = Accepted(MustListen(address), AF_INET);
    EXPECT_EQ(Option(accepted, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(Option(accepted, IPPROTO_TCP, TCP_USER_TIMEOUT), 20000);
  }
}

sockaddr_storage Address(int family, const char* text) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  void* const ip = family == AF_INET
                       ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr)
                       : static_cast<void*>(&reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr);
  EXPECT_EQ(inet_pton(family, text, ip), 1) << text;
  return address;
}

TEST(PeerKeyTest, AHostHasOneKey) {
  const auto v4 = [](const char* text) { return PeerKey(Address(AF_INET, text)); };
  const auto v6 = [](const char* text) { return PeerKey(Address(AF_INET6, text)); };
  EXPECT_NE(v4("10.0.0.1"), v4("10.0.0.2"));
  EXPECT_EQ(v4("10.0.0.1"), v6("::ffff:10.0.0.1")) << "the address that a dual socket reports";
  EXPECT_EQ(v6("2001:db8:1:2::1"), v6("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  EXPECT_NE(v6("2001:db8:1:2::1"), v6("2001:db8:1:3::1"));
  EXPECT_NE(v6("::1"), v4("0.0.0.0"));
}

}  // namespace
}  // namespace longstream
