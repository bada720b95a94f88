// Caches that go from one replica to another, and what goes wrong on their way.
#include <memory>
#include <string>

#include "tests/service/server/peer/peers_fixture.h"

namespace longstream {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class PeerCachesTest : public PeersTest {
 protected:
  // Sends caches by Fetch from b to a, and returns how they have arrived.
  absl::Status SendByFetch(std::shared_ptr<fleet::CacheReader> reader,
                           std::shared_ptr<fleet::CacheWriter> writer) {
    const fleet::Number number = ++last_;
    const fleet::Fetch fetch = AskAndGive(number);
    Arrival arrival;
    a_.client->ReceiveCaches("b/2", number, WriteInto(std::move(writer)), arrival.Callback());
    b_.client->SendCaches("a/1", fetch.request, std::move(reader));
    return arrival.Wait();
  }
  // The same by Offer. The session is taken whatever happens to its caches.
  absl::Status SendByOffer(std::shared_ptr<fleet::CacheReader> reader,
                           std::shared_ptr<fleet::CacheWriter> writer) {
    const fleet::Offer offer = Offer(++last_);
    Arrival arrival;
    a_.client->ReceiveCaches("b/2", offer.request, WriteInto(std::move(writer)),
                             arrival.Callback());
    b_.client->SendCaches("a/1", last_, std::move(reader));
    absl::Status status = arrival.Wait();
    a_.client->Send("b/2", fleet::Moved{.session = offer.session, .epoch = 4});
    EXPECT_TRUE(b_.inbox.Next<fleet::Moved>("a/1").has_value());
    return status;
  }
  void Reset() {
    flow_.read = flow_.written = flow_.most_between = 0;
    flow_.finished = false;
  }

  fleet::Number last_ = 0;
};

TEST_F(PeerCachesTest, ArriveWhole) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, 64 * kMiB}) {
    for (const bool by_fetch : {true, false}) {
      Reset();
      auto reader = std::make_shared<TestReader>(&flow_, bytes);
      auto writer = std::make_shared<TestWriter>(&flow_);
      const absl::Status status = by_fetch ? SendByFetch(std::move(reader), std::move(writer))
                                           : SendByOffer(std::move(reader), std::move(writer));
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(flow_.finished);
      EXPECT_EQ(flow_.written, bytes);
      ExpectNothingIsLeft();
      EXPECT_TRUE(b_.inbox.broken().empty());
    }
  }
}

// The sender stops when the receiver does: only a few pieces, and what gRPC and the system buffer,
// are between the two.
TEST_F(PeerCachesTest, ASlowWriterKeepsTheSenderBack) {
  for (const bool by_fetch : {true, false}) {
    Reset();
    auto reader = std::make_shared<TestReader>(&flow_, 64 * kMiB);
    auto writer = std::make_shared<TestWriter>(&flow_, UINT64_MAX, absl::Milliseconds(2));
    const absl::Status status = by_fetch ? SendByFetch(std::move(reader), std::move(writer))
                                         : SendByOffer(std::move(reader), std::move(writer));
    ASSERT_TRUE(status.ok()) << status;  // otherwise the flows would mix
    EXPECT_GT(flow_.most_between, 0u);
    EXPECT_LT(flow_.most_between, 12 * kMiB);
  }
}

TEST_F(PeerCachesTest, AWriterThatFails) {
  for (const bool by_fetch : {true, false}) {
    for (const uint64_t fails_at : {uint64_t{0}, 2 * kMiB}) {
      Reset();
      auto reader = std::make_shared<TestReader>(&flow_, 16 * kMiB);
      auto writer = std::make_shared<TestWriter>(&flow_, fails_at);
      const absl::Status status = by_fetch ? SendByFetch(std::move(reader), std::move(writer))
                                           : SendByOffer(std::move(reader), std::move(writer));
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_FALSE(flow_.finished);
      ExpectNothingIsLeft();
    }
  }
}

TEST_F(PeerCachesTest, AReaderThatFailsInTheMiddle) {
  for (const bool by_fetch : {true, false}) {
    for (const uint64_t fails_at : {uint64_t{0}, 2 * kMiB, 16 * kMiB}) {
      Reset();
      auto reader = std::make_shared<TestReader>(&flow_, 16 * kMiB, fails_at);
      auto writer = std::make_shared<TestWriter>(&flow_);
      const absl::Status status = by_fetch ? SendByFetch(std::move(reader), std::move(writer))
                                           : SendByOffer(std::move(reader), std::move(writer));
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_FALSE(flow_.finished);
      EXPECT_LE(flow_.written, fails_at);
      ExpectNothingIsLeft();
    }
  }
}

TEST_F(PeerCachesTest, NoneAfterAll) {
  for (const bool by_fetch : {true, false}) {
    Reset();
    auto writer = std::make_shared<TestWriter>(&flow_);
    const absl::Status status = by_fetch ? SendByFetch(nullptr, std::move(writer))
                                         : SendByOffer(nullptr, std::move(writer));
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_FALSE(flow_.finished);
    ExpectNothingIsLeft();
  }
}

// No memory for them, or another layout.
TEST_F(PeerCachesTest, TheReceiverWantsNone) {
  const fleet::Fetch fetch = AskAndGive(1);
  Arrival arrival;
  a_.client->ReceiveCaches(
      "b/2", 1,
      [](const std::string& /*header*/, const auto& take) {
        take(absl::FailedPreconditionError("another layout"));
      },
      arrival.Callback());
  b_.client->SendCaches("a/1", fetch.request, std::make_shared<TestReader>(&flow_, 16 * kMiB));
  EXPECT_TRUE(absl::IsFailedPrecondition(arrival.Wait()));
  ExpectNothingIsLeft();
}

// The driver gives the writer later, on another thread.
TEST_F(PeerCachesTest, AWriterThatComesLater) {
  const fleet::Fetch fetch = AskAndGive(1);
  Arrival arrival;
  absl::Mutex mutex;
  std::function<void(absl::StatusOr<std::shared_ptr<fleet::CacheWriter>>)> later;
  a_.client->ReceiveCaches(
      "b/2", 1,
      [&](const std::string& /*header*/, const auto& take) {
        absl::MutexLock lock(&mutex);
        later = take;
      },
      arrival.Callback());
  b_.client->SendCaches("a/1", fetch.request, std::make_shared<TestReader>(&flow_, 3 * kMiB));
  ASSERT_TRUE(WaitUntil([&] {
    absl::MutexLock lock(&mutex);
    return later != nullptr;
  }));
  later(std::make_shared<TestWriter>(&flow_));
  EXPECT_TRUE(arrival.Wait().ok());
  later = nullptr;
  ExpectNothingIsLeft();
}

TEST_F(PeerCachesTest, ACutConnection) {
  const fleet::Fetch fetch = AskAndGive(1);
  Arrival arrival;
  a_.client->ReceiveCaches(
      "b/2", 1, WriteInto(std::make_shared<TestWriter>(&flow_, UINT64_MAX, absl::Milliseconds(1))),
      arrival.Callback());
  b_.client->SendCaches("a/1", fetch.request, std::make_shared<TestReader>(&flow_, 512 * kMiB));
  ASSERT_TRUE(WaitUntil([&] { return flow_.written > kMiB; }));
  b_.server->Shutdown();
  EXPECT_TRUE(absl::IsUnavailable(arrival.Wait()));
  EXPECT_FALSE(flow_.finished);
  ExpectNothingIsLeft();
}

// Either side may forget the call in the middle.
TEST_F(PeerCachesTest, ForgottenInTheMiddle) {
  for (const bool by_receiver : {true, false}) {
    Reset();
    const fleet::Number number = ++last_;
    const fleet::Offer offer = Offer(number);
    Arrival arrival;
    a_.client->ReceiveCaches(
        "b/2", offer.request,
        WriteInto(std::make_shared<TestWriter>(&flow_, UINT64_MAX, absl::Milliseconds(1))),
        arrival.Callback());
    b_.client->SendCaches("a/1", number, std::make_shared<TestReader>(&flow_, 512 * kMiB));
    ASSERT_TRUE(WaitUntil([&] { return flow_.written > kMiB; }));
    by_receiver ? a_.client->Forget("b/2", offer.request) : b_.client->Forget("a/1", number);
    EXPECT_FALSE(arrival.Wait().ok());
    EXPECT_FALSE(flow_.finished);
    ExpectNothingIsLeft();
  }
}

TEST_F(PeerCachesTest, OfACallThatHasEnded) {
  Arrival unknown, again;
  const auto no_writer = [](const std::string& /*header*/, const auto& /*take*/) { FAIL(); };
  a_.client->ReceiveCaches("b/2", 77, no_writer, unknown.Callback());
  EXPECT_TRUE(absl::IsUnavailable(unknown.Wait()));
  Ask(1);  // not given yet
  a_.client->ReceiveCaches("b/2", 1, no_writer, again.Callback());
  EXPECT_TRUE(absl::IsUnavailable(again.Wait()));
}

TEST_F(PeerCachesTest, ManyAtOnce) {
  constexpr int kCalls = 30;
  std::vector<std::unique_ptr<Flow>> flows;
  std::vector<std::unique_ptr<Arrival>> arrivals;
  for (int i = 0; i < kCalls; ++i) {
    const fleet::Number number = ++last_;
    const fleet::Fetch fetch = AskAndGive(number);
    flows.push_back(std::make_unique<Flow>());
    arrivals.push_back(std::make_unique<Arrival>());
    a_.client->ReceiveCaches("b/2", number,
                             WriteInto(std::make_shared<TestWriter>(flows.back().get())),
                             arrivals.back()->Callback());
    b_.client->SendCaches("a/1", fetch.request,
                          std::make_shared<TestReader>(flows.back().get(), kMiB + i));
  }
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_TRUE(arrivals[i]->Wait().ok());
    EXPECT_EQ(flows[i]->written, kMiB + i);
  }
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace longstream
