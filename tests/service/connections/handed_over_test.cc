// The end of a connection is recognised by its descriptor, also if the descriptor is reused.
#include "service/connections/handed_over.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "service/connections/descriptor.h"

namespace longstream {
namespace {

Descriptor NewSocket() { return Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

class HandedOverTest : public testing::Test {
 protected:
  void Add(const Descriptor& socket, const std::string& peer) {
    connections_.Add(socket.number(), peer, on_ended_);
  }
  // Returns the peers of the connections that have ended, in any order.
  std::vector<std::string> Ended() {
    ended_.clear();
    connections_.RemoveEnded(on_ended_);
    return ended_;
  }
  // Closes the socket and gives its number to `other`.
  static void Reuse(Descriptor* socket, const Descriptor& other) {
    ASSERT_EQ(dup3(other.number(), socket->number(), O_CLOEXEC), socket->number());
  }

  HandedOver connections_;
  std::vector<std::string> ended_;
  const HandedOver::OnEnded on_ended_ = [this](const std::string& peer) { ended_.push_back(peer); };
};

TEST_F(HandedOverTest, OpenConnectionsStay) {
  const Descriptor a = NewSocket();
  const Descriptor b = NewSocket();
  Add(a, "a");
  Add(b, "b");
  EXPECT_TRUE(Ended().empty());
  EXPECT_EQ(connections_.size(), 2u);
}

TEST_F(HandedOverTest, AClosedDescriptor) {
  Descriptor a = NewSocket();
  const Descriptor b = NewSocket();
  Add(a, "a");
  Add(b, "b");
  a.Close();
  EXPECT_EQ(Ended(), std::vector<std::string>{"a"});
  EXPECT_EQ(connections_.size(), 1u);
  EXPECT_TRUE(Ended().empty());
}

TEST_F(HandedOverTest, ADescriptorThatIsNowAFile) {
  Descriptor a = NewSocket();
  Add(a, "a");
  Reuse(&a, Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  EXPECT_EQ(Ended(), std::vector<std::string>{"a"});
}

TEST_F(HandedOverTest, ADescriptorThatIsNowAnotherSocket) {
  Descriptor a = NewSocket();
  Add(a, "a");
  Reuse(&a, NewSocket());
  EXPECT_EQ(Ended(), std::vector<std::string>{"a"});
  EXPECT_EQ(connections_.size(), 0u);
}

// The kernel gives the number of a closed descriptor to the next connection, before anybody has
// looked for ended connections.
TEST_F(HandedOverTest, ADescriptorThatIsNowAnotherConnection) {
  Descriptor a = NewSocket();
  Add(a, "a");
  Reuse(&a, NewSocket());
  Add(a, "b");
  EXPECT_EQ(ended_, std::vector<std::string>{"a"});
  EXPECT_EQ(connections_.size(), 1u);
  EXPECT_TRUE(Ended().empty());
  a.Close();
  EXPECT_EQ(Ended(), std::vector<std::string>{"b"});
}

TEST_F(HandedOverTest, NoTwoSocketsHaveTheSameIdentity) {
  const uint64_t first = SocketIdentity(NewSocket().number());
  const Descriptor again = NewSocket();
  EXPECT_NE(first, 0u);
  EXPECT_NE(SocketIdentity(again.number()), first);
  EXPECT_EQ(SocketIdentity(again.number()), SocketIdentity(again.number()));
  EXPECT_EQ(SocketIdentity(-1), 0u);
}

}  // namespace
}  // namespace longstream
