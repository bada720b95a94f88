// Replicas in one process that talk over loopback connections.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_PEER_PEERS_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_PEER_PEERS_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "service/fleet/peers.h"
#include "service/server/peer/peer_client.h"
#include "service/server/peer/peer_server.h"
#include "tests/service/wait_until.h"

namespace longstream {

inline constexpr absl::Duration kPatience = absl::Seconds(60);

// Remembers what has come.
class Inbox final : public fleet::PeerEvents {
 public:
  void MessageArrived(const fleet::ReplicaName& from, fleet::PeerMessage message) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    messages_.emplace_back(from, std::move(message));
  }

  void GivingBroken(const fleet::ReplicaName& peer, fleet::Number request) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    broken_.emplace_back(peer, request);
  }
  void CallRefused(const fleet::ReplicaName& peer, fleet::Number /*request*/,
                   const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    refused_.emplace_back(peer, why.code());
  }
  // The last call that a peer has refused.
  std::pair<fleet::ReplicaName, absl::StatusCode> refused() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return refused_.empty() ? std::pair(fleet::ReplicaName(), absl::StatusCode::kOk)
                            : refused_.back();
  }
  // The calls that have broken off.
  std::vector<std::pair<fleet::ReplicaName, fleet::Number>> broken() const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return broken_;
  }

  // The next message of this type; messages of other types stay. Fails the test if none comes.
  template <typename Message>
  std::optional<Message> Next(const fleet::ReplicaName& from) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<Message> found;
    EXPECT_TRUE(WaitUntil([&] {
      found = Take<Message>(from);
      return found.has_value();
    })) << "no message from "
        << from;
    return found;
  }
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return messages_.size();
  }

 private:
  template <typename Message>
  std::optional<Message> Take(const fleet::ReplicaName& from) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (auto at = messages_.begin(); at != messages_.end(); ++at) {
      const auto* const message = std::get_if<Message>(&at->second);
      if (message == nullptr || at->first != from) continue;
      std::optional<Message> taken = *message;
      messages_.erase(at);
      return taken;
    }
    return std::nullopt;
  }

  mutable absl::Mutex mutex_;
  std::deque<std::pair<fleet::ReplicaName, fleet::PeerMessage>> messages_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<fleet::ReplicaName, fleet::Number>> broken_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<fleet::ReplicaName, absl::StatusCode>> refused_ ABSL_GUARDED_BY(mutex_);
};

// Caches repeat these bytes, whose number no size of a piece divides.
inline const std::string& Pattern() {
  static const auto* const pattern = [] {
    auto* const bytes = new std::string;
    for (uint32_t i = 0; i < 65'537; ++i) {
      bytes->push_back(static_cast<char>((i * 31) ^ (i >> 9)));
    }
    return bytes;
  }();
  return *pattern;
}

// Calls `visit` for each run of the pattern in the caches from `begin` to `end`.
template <typename Visit>
void VisitPattern(uint64_t begin, uint64_t end, const Visit& visit) {
  while (begin < end) {
    const uint64_t at = begin % Pattern().size();
    const uint64_t size = std::min<uint64_t>(end - begin, Pattern().size() - at);
    visit(std::string_view(Pattern()).substr(at, size));
    begin += size;
  }
}

// Counts of the bytes that have gone through a reader and a writer.
struct Flow {
  std::atomic<uint64_t> read = 0;
  std::atomic<uint64_t> written = 0;
  std::atomic<uint64_t> most_between = 0;
  std::atomic<int> readers = 0;  // that exist
  std::atomic<int> writers = 0;
  std::atomic<bool> finished = false;
};

class TestReader final : public fleet::CacheReader {
 public:
  // `fails_at`: the position at which Read returns an error.
  TestReader(Flow* flow, uint64_t bytes, uint64_t fails_at = UINT64_MAX)
      : flow_(flow), bytes_(bytes), fails_at_(fails_at) {
    ++flow_->readers;
  }
  ~TestReader() override { --flow_->readers; }

  const std::string& header() const override { return header_; }
  uint64_t bytes() const override { return bytes_; }
  absl::Status Read(size_t size, std::string* bytes) override {
    const uint64_t begin = flow_->read;
    if (begin >= fails_at_) return absl::DataLossError("the reader has failed");
    const uint64_t end = std::min<uint64_t>(begin + size, bytes_);
    VisitPattern(begin, end, [&](std::string_view run) { bytes->append(run); });
    flow_->read = end;
    return absl::OkStatus();
  }

 private:
  Flow* const flow_;
  const std::string header_ = "header of caches";
  const uint64_t bytes_;
  const uint64_t fails_at_;
};

class TestWriter final : public fleet::CacheWriter {
 public:
  explicit TestWriter(Flow* flow, uint64_t fails_at = UINT64_MAX, absl::Duration pause = {})
      : flow_(flow), fails_at_(fails_at), pause_(pause) {
    ++flow_->writers;
  }
  ~TestWriter() override { --flow_->writers; }

  absl::Status Write(std::string_view bytes) override {
    absl::SleepFor(pause_);
    const uint64_t begin = flow_->written;
    const uint64_t between = flow_->read - begin;
    if (between > flow_->most_between) flow_->most_between = between;
    if (begin >= fails_at_) return absl::ResourceExhaustedError("the writer has failed");
    const uint64_t end = begin + bytes.size();
    bool are_equal = true;
    VisitPattern(begin, end, [&](std::string_view run) {
      are_equal &= bytes.substr(0, run.size()) == run;
      bytes.remove_prefix(run.size());
    });
    flow_->written = end;
    return are_equal ? absl::OkStatus() : absl::DataLossError("another byte was sent");
  }
  absl::Status Finish() override {
    flow_->finished = true;
    return absl::OkStatus();
  }

 private:
  Flow* const flow_;
  const uint64_t fails_at_;
  const absl::Duration pause_;
};

// The outcome of ReceiveCaches. It may come when the test has ended.
class Arrival {
 public:
  std::function<void(const absl::Status&)> Callback() {
    return [state = state_](const absl::Status& status) {
      absl::MutexLock lock(&state->mutex);
      EXPECT_FALSE(state->status.has_value()) << "arrived twice";
      state->status = status;
    };
  }
  bool has_come() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->status.has_value();
  }
  absl::Status Wait() const {
    // A machine may be slow, and caches large.
    const bool came =
        WaitUntil([this] { return has_come(); }) || WaitUntil([this] { return has_come(); });
    absl::MutexLock lock(&state_->mutex);
    return came ? *state_->status : absl::UnknownError("nothing has arrived");
  }

 private:
  struct State {
    absl::Mutex mutex;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

inline fleet::Peers::BeginCaches WriteInto(std::shared_ptr<fleet::CacheWriter> writer) {
  return [writer = std::move(writer)](const std::string& header, const auto& take) {
    EXPECT_EQ(header, "header of caches");
    take(writer);
  };
}

// Time limits that no test on a slow machine reaches by accident.
inline PeerLimits PatientLimits() {
  PeerLimits limits;
  limits.answer_timeout = kPatience;
  limits.piece_timeout = kPatience;
  limits.connect_timeout = kPatience;
  limits.taking_timeout = kPatience;
  limits.attach_timeout = kPatience;
  limits.notice_timeout = kPatience;
  return limits;
}

// A replica without a state machine: the test is its driver.
struct TestReplica {
  explicit TestReplica(std::string own_name, const PeerLimits& limits = PatientLimits(),
                       PeerChannels::Options channels = {})
      : name(std::move(own_name)),
        client(std::make_unique<PeerClient>(PeerClient::Options{std::move(channels), limits})) {
    client->SetSelf(name);
    client->SetEvents(&inbox);
  }
  void Listen(PeerServer::Options options = {}, int port = 0) {
    options.listen = "127.0.0.1:" + std::to_string(port);
    auto started = PeerServer::Start(options, client.get());
    ASSERT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
  }
  ~TestReplica() {
    if (server != nullptr) server->Shutdown();
  }
  fleet::Replica lease() const {
    return {name, "127.0.0.1:" + std::to_string(server->port()), "127.0.0.1:1"};
  }
  size_t open_calls() const { return client->core()->calls().size(); }

  const fleet::ReplicaName name;
  Inbox inbox;
  std::unique_ptr<PeerClient> client;
  std::unique_ptr<PeerServer> server;  // ends before the client
};

inline SessionKey TestSession(uint64_t number = 1) { return {"acme", SessionId{7, number}}; }

class PeersTest : public testing::Test {
 protected:
  explicit PeersTest(const PeerLimits& limits = PatientLimits())
      : a_("a/1", limits), b_("b/2", limits) {
    a_.Listen();
    b_.Listen();
    a_.client->SetReplicas({b_.lease()});
    b_.client->SetReplicas({a_.lease()});
  }

  // `a` asks for the session, and `b` has got the message.
  fleet::Fetch Ask(fleet::Number number = 1) {
    a_.client->Send("b/2", fleet::Fetch{TestSession(), number, 3, {}});
    return b_.inbox.Next<fleet::Fetch>("a/1").value_or(fleet::Fetch{});
  }
  // The same, and `b` gives it with caches that `a` knows of.
  fleet::Fetch AskAndGive(fleet::Number number = 1) {
    const fleet::Fetch fetch = Ask(number);
    b_.client->Send("a/1", fleet::Given{fetch.session, fetch.request, 3, 9, true});
    EXPECT_TRUE(a_.inbox.Next<fleet::Given>("b/2").has_value());
    return fetch;
  }
  // `b` offers the session with caches, and `a` has got the message.
  fleet::Offer Offer(fleet::Number number = 1, bool has_caches = true) {
    b_.client->Send("a/1", fleet::Offer{TestSession(), number, 3, 9, has_caches});
    return a_.inbox.Next<fleet::Offer>("b/2").value_or(fleet::Offer{});
  }
  // Nothing is left of any call.
  void ExpectNothingIsLeft() {
    EXPECT_TRUE(WaitUntil([&] { return a_.open_calls() + b_.open_calls() == 0; }))
        << a_.open_calls() << " and " << b_.open_calls();
    EXPECT_TRUE(WaitUntil([&] { return flow_.readers + flow_.writers == 0; }))
        << flow_.readers << " and " << flow_.writers;
  }

  Flow flow_;
  TestReplica a_;
  TestReplica b_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_PEER_PEERS_FIXTURE_H_
