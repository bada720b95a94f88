// The time for the first request, with sockets that belong to nobody else.
#include "service/connections/first_requests.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

#include "service/connections/descriptor.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

constexpr std::chrono::milliseconds kSoon{3000};

// A connection as a server has it, and its client.
class Pair {
 public:
  Pair() : listener_(Listener()), client_(PortOf(listener_.number())) {
    socklen_t size = sizeof(peer_);
    server_ = Descriptor(accept(listener_.number(), reinterpret_cast<sockaddr*>(&peer_), &size));
  }
  const sockaddr_storage& peer() const { return peer_; }
  // The client's address as gRPC writes it.
  std::string peer_text() const {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&peer_);
    return "ipv4:127.0.0.1:" + std::to_string(ntohs(v4->sin_port));
  }
  int descriptor() const { return server_.number(); }
  const TcpClient& client() const { return client_; }
  void CloseServer() { server_.Close(); }
  bool ended() const {
    char byte = 0;
    return recv(client_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

 private:
  static Descriptor Listener() {
    Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener.number(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(listen(listener.number(), 1), 0);
    return listener;
  }
  static int PortOf(int socket) {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  Descriptor listener_;
  TcpClient client_;
  sockaddr_storage peer_{};
  Descriptor server_;
};

MonotonicTime After(absl::Duration time) { return MonotonicTime::Now() + time; }

TEST(FirstRequests, EndsAConnectionAtItsDeadline) {
  FirstRequests requests(absl::Seconds(10));
  EXPECT_EQ(requests.next_deadline(), MonotonicTime::InfiniteFuture());
  const Pair pair;
  requests.Expect(pair.descriptor(), pair.peer());
  EXPECT_GT(requests.next_deadline(), After(absl::Seconds(9)));
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(9))), 0u);
  EXPECT_FALSE(pair.ended());
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(10))), 1u);
  EXPECT_EQ(pair.client().ReceiveAll(kSoon), "");
  EXPECT_EQ(requests.next_deadline(), MonotonicTime::InfiniteFuture());
  EXPECT_EQ(requests.EndOverdue(After(absl::Hours(1))), 0u);
}

TEST(FirstRequests, ACallEndsTheTime) {
  FirstRequests requests(absl::Seconds(10));
  const Pair with_call;
  const Pair without;
  requests.Expect(with_call.descriptor(), with_call.peer());
  requests.Expect(without.descriptor(), without.peer());
  for (const std::string nobody : {"", ":", "unix:", "ipv4:127.0.0.1:0", "ipv4:1:99999"}) {
    requests.CallFrom(nobody);
  }
  requests.CallFrom(with_call.peer_text());
  requests.CallFrom(with_call.peer_text());
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(11))), 1u);
  EXPECT_FALSE(with_call.ended());
  EXPECT_EQ(without.client().ReceiveAll(kSoon), "");
}

TEST(FirstRequests, ALargeMessageMayTakeLonger) {
  FirstRequests requests(absl::Seconds(10));
  const Pair little;
  const Pair much;
  EXPECT_TRUE(little.client().Send(std::string(1023, 'x')));
  EXPECT_TRUE(much.client().Send(std::string(1024, 'x')));
  requests.Expect(little.descriptor(), little.peer());
  requests.Expect(much.descriptor(), much.peer());
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(11))), 1u);
  EXPECT_TRUE(little.ended());
  EXPECT_FALSE(much.ended());
}

// A handshake of TLS with a chain of certificates is no request.
TEST(FirstRequests, AHandshakeIsNoRequest) {
  FirstRequests requests(absl::Seconds(10), FirstRequests::kBytesOfARequestOverTls);
  const Pair handshake;
  const Pair message;
  EXPECT_TRUE(handshake.client().Send(std::string(16 << 10, 'x')));
  EXPECT_TRUE(message.client().Send(std::string(32 << 10, 'x')));
  requests.Expect(handshake.descriptor(), handshake.peer());
  requests.Expect(message.descriptor(), message.peer());
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(11))), 1u);
  EXPECT_TRUE(handshake.ended());
  EXPECT_FALSE(message.ended());
}

// gRPC closes descriptors and tells nobody. The number may then belong to something else.
TEST(FirstRequests, AReusedDescriptorIsLeftAlone) {
  FirstRequests requests(absl::Seconds(10));
  Pair ended;
  const int number = ended.descriptor();
  requests.Expect(number, ended.peer());
  ended.CloseServer();
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(5))), 0u);
  const Pair other;
  const Descriptor same(dup2(other.descriptor(), number));
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(11))), 0u);
  EXPECT_FALSE(other.ended());

  requests.Expect(number, ended.peer());
  requests.Expect(number, other.peer());
  EXPECT_EQ(requests.EndOverdue(After(absl::Seconds(11))), 1u);
  EXPECT_TRUE(other.ended());
}

}  // namespace
}  // namespace longstream
