// The accept loop, also when the process has no descriptor left.
#include "service/connections/accept_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "service/connections/listening_sockets.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;

// Keeps every connection and counts the calls.
class Recorder final : public ConnectionHandler {
 public:
  void OnConnection(Descriptor connection, const sockaddr_storage& /*peer*/) override {
    absl::MutexLock lock(&mutex_);
    if (loop != nullptr) loop->Watch(connection.number(), EPOLLIN);
    connections_.push_back(std::move(connection));
  }
  void OnNoDescriptor() override {
    absl::MutexLock lock(&mutex_);
    ++refused_;
  }
  void OnReady(int /*descriptor*/) override {
    absl::MutexLock lock(&mutex_);
    ++ready_;
  }
  MonotonicTime OnTime(MonotonicTime /*now*/) override {
    absl::MutexLock lock(&mutex_);
    ++rounds_;
    return MonotonicTime::InfiniteFuture();
  }
  void OnAcceptingStopped() override {}

  size_t connections() {
    return Locked([this] { return connections_.size(); });
  }
  size_t refused() {
    return Locked([this] { return refused_; });
  }
  size_t ready() {
    return Locked([this] { return ready_; });
  }
  size_t rounds() {
    return Locked([this] { return rounds_; });
  }

  AcceptLoop* loop = nullptr;  // set it to watch connections

 private:
  size_t Locked(const std::function<size_t()>& read) {
    absl::MutexLock lock(&mutex_);
    return read();
  }

  absl::Mutex mutex_;
  std::vector<Descriptor> connections_;
  size_t refused_ = 0;
  size_t ready_ = 0;
  size_t rounds_ = 0;
};

// Waits until `is_true` returns true. Returns false after 20 s.
bool Eventually(const std::function<bool()>& is_true) {
  for (int i = 0; i < 4000; ++i) {
    if (is_true()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

// Sets the soft limit of descriptors; the destructor restores it.
class DescriptorLimitOf {
 public:
  explicit DescriptorLimitOf(rlim_t limit) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit lower = before_;
    lower.rlim_cur = limit;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~DescriptorLimitOf() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimitOf(const DescriptorLimitOf&) = delete;
  DescriptorLimitOf& operator=(const DescriptorLimitOf&) = delete;

 private:
  rlimit before_{};
};

// The lowest number that no descriptor has. All lower numbers are in use.
rlim_t LowestFree() {
  const Descriptor free(dup(STDERR_FILENO));
  return static_cast<rlim_t>(free.number());
}

double ProcessorSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

class AcceptLoopTest : public testing::Test {
 protected:
  AcceptLoopTest() {
    absl::StatusOr<ListeningSockets> listening = Listen("127.0.0.1:0", absl::ZeroDuration());
    if (!listening.ok()) throw std::runtime_error(listening.status().ToString());
    port_ = listening->port;
    auto loop = AcceptLoop::Create(std::move(listening->sockets));
    if (!loop.ok()) throw std::runtime_error(loop.status().ToString());
    loop_ = *std::move(loop);
  }

  int port_ = 0;
  Recorder recorder_;
  std::unique_ptr<AcceptLoop> loop_;
};

TEST_F(AcceptLoopTest, AcceptsAndReportsEachArrivalOnce) {
  recorder_.loop = loop_.get();
  loop_->Start(&recorder_);
  const TcpClient first(port_);
  const TcpClient second(port_);
  ASSERT_TRUE(Eventually([&] { return recorder_.connections() == 2; }));
  EXPECT_TRUE(first.Send("a"));
  ASSERT_TRUE(Eventually([&] { return recorder_.ready() == 1; }));
  const size_t rounds = recorder_.rounds();
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_LE(recorder_.rounds(), rounds + 1) << "bytes that nobody reads make the loop spin";
  EXPECT_EQ(recorder_.ready(), 1u);
  EXPECT_TRUE(first.Send("b"));
  EXPECT_TRUE(Eventually([&] { return recorder_.ready() == 2; }));
}

TEST_F(AcceptLoopTest, StopAcceptingClosesThePortAndKeepsConnections) {
  recorder_.loop = loop_.get();
  loop_->Start(&recorder_);
  const TcpClient before(port_);
  ASSERT_TRUE(Eventually([&] { return recorder_.connections() == 1; }));
  loop_->StopAccepting();
  EXPECT_THROW(TcpClient{port_}, std::runtime_error);
  EXPECT_TRUE(before.Send("a"));
  EXPECT_TRUE(Eventually([&] { return recorder_.ready() == 1; }));
  loop_->StopAccepting();  // a second call changes nothing
}

TEST_F(AcceptLoopTest, WithoutADescriptorClientsAreRefusedAtOnce) {
  std::vector<TcpClient> clients;  // they wait in the kernel's queue
  for (int i = 0; i < 40; ++i) clients.emplace_back(port_);
  {
    const DescriptorLimitOf none_left(LowestFree());
    loop_->Start(&recorder_);
    for (const TcpClient& client : clients) EXPECT_EQ(client.ReceiveAll(), "");
    EXPECT_TRUE(Eventually([&] { return recorder_.refused() == 40; }));
    EXPECT_EQ(recorder_.connections(), 0u);
  }
  const TcpClient served(port_);
  EXPECT_TRUE(Eventually([&] { return recorder_.connections() == 1; }));
}

// The reserve itself cannot be opened again below this limit. The same happens if another thread
// takes the descriptor that was free for a moment.
TEST_F(AcceptLoopTest, WithoutItsReserveTheLoopNeitherSpinsNorStops) {
  std::vector<TcpClient> clients;
  for (int i = 0; i < 40; ++i) clients.emplace_back(port_);
  {
    const DescriptorLimitOf nothing_at_all(STDERR_FILENO + 1);
    loop_->Start(&recorder_);
    std::this_thread::sleep_for(milliseconds(300));
    const double before = ProcessorSeconds();
    const size_t rounds = recorder_.rounds();
    std::this_thread::sleep_for(milliseconds(1000));
    EXPECT_LT(ProcessorSeconds() - before, 0.2);
    EXPECT_LE(recorder_.rounds() - rounds, 40u);
    EXPECT_GE(recorder_.rounds() - rounds, 3u) << "the loop does not try again";
    EXPECT_EQ(recorder_.connections(), 0u);
  }
  EXPECT_TRUE(Eventually([&] { return recorder_.connections() == 40; }));
  // The reserve is there again, too.
  const size_t refused = recorder_.refused();
  const TcpClient another(port_);
  ASSERT_TRUE(Eventually([&] { return recorder_.connections() == 41; }));
  EXPECT_EQ(recorder_.refused(), refused);
}

// A client that resets its connection before it is accepted does no harm.
TEST_F(AcceptLoopTest, ConnectionsThatEndInTheQueue) {
  for (int i = 0; i < 20; ++i) TcpClient(port_).Reset();
  loop_->Start(&recorder_);
  const TcpClient honest(port_);
  EXPECT_TRUE(honest.Send("a"));
  EXPECT_TRUE(Eventually([&] { return recorder_.connections() >= 1; }));
}

}  // namespace
}  // namespace longstream
