// The stream of a turn that runs on another replica.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "longstream/peer/v1/peer.grpc.pb.h"
#include "service/server/transport/grpc_status.h"
#include "tests/service/server/peer/peers_fixture.h"

namespace longstream {
namespace {

// The owner's side: writes so many messages as fast as it can, then ends, or waits for its end.
class NumberedStream final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  NumberedStream(AttachCall call, uint64_t messages, std::optional<absl::Status> end,
                 std::atomic<uint64_t>* written)
      : call_(std::move(call)), messages_(messages), end_(std::move(end)), written_(written) {
    WriteNext();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return EndWith(absl::CancelledError());
    written_->fetch_add(1);
    WriteNext();
  }
  void OnCancel() override { EndWith(absl::CancelledError()); }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (next_ < messages_) {
      response_.mutable_delta()->set_position(++next_);
      response_.mutable_delta()->set_text(call_.request.message->session_id());
      StartWrite(&response_);
    } else if (end_.has_value()) {
      EndWith(*end_);
    }
  }
  void EndWith(const absl::Status& status) {
    if (!ended_.exchange(true)) Finish(ToGrpc(status));
  }

  const AttachCall call_;
  const uint64_t messages_;
  const std::optional<absl::Status> end_;
  std::atomic<uint64_t>* const written_;
  std::atomic<bool> ended_ = false;
  uint64_t next_ = 0;
  v1::GenerateResponse response_;
};

// The messages and the end that the relaying side has got.
class Reader {
 public:
  // `hurries`: it asks for each message at once.
  explicit Reader(bool hurries) : hurries_(hurries) {}

  RelayRequest Request(const fleet::ReplicaName& peer = "b/2") {
    v1::GenerateRequest request;
    request.set_session_id("canary");
    RelayRequest relay;
    relay.peer = peer;
    relay.session = TestSession();
    relay.turn = {3, 4};
    relay.request = request.SerializeAsString();
    relay.on_message = [this](const v1::GenerateResponse& message) { OnMessage(message); };
    relay.on_end = [this](const absl::Status& status) {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(end_.has_value()) << "it has ended twice";
      end_ = status;
    };
    return relay;
  }
  void Begin(PeerClient* client, RelayRequest request) {
    std::shared_ptr<RelayedStream> stream = client->Relay(std::move(request));
    absl::MutexLock lock(&mutex_);
    stream_ = std::move(stream);
    while (waiting_ > 0 && hurries_) Ask();
  }
  void Next() {
    absl::MutexLock lock(&mutex_);
    Ask();
  }
  void Cancel() {
    absl::MutexLock lock(&mutex_);
    stream_->Cancel();
  }
  void Drop() {
    absl::MutexLock lock(&mutex_);
    stream_.reset();
  }
  uint64_t messages() const {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  absl::Status End() {
    EXPECT_TRUE(WaitUntil([this] {
      absl::MutexLock lock(&mutex_);
      return end_.has_value();
    }));
    absl::MutexLock lock(&mutex_);
    return end_.value_or(absl::UnknownError("it has not ended"));
  }

 private:
  void OnMessage(const v1::GenerateResponse& message) {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(end_.has_value());
    EXPECT_EQ(message.delta().position(), ++messages_);
    EXPECT_EQ(message.delta().text(), "canary") << "the client's request has arrived";
    ++waiting_;
    if (hurries_ && stream_ != nullptr) Ask();
  }
  void Ask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    --waiting_;
    stream_->Next();
  }

  const bool hurries_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<RelayedStream> stream_ ABSL_GUARDED_BY(mutex_);
  uint64_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // messages for which Next was not called
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

class PeerRelayTest : public testing::Test {
 protected:
  explicit PeerRelayTest(const PeerLimits& limits = PatientLimits())
      : a_("a/1", limits), b_("b/2", limits) {}

  void Start(uint64_t messages, std::optional<absl::Status> end) {
    b_.Listen({.attach = [this, messages, end = std::move(end)](
                             grpc::CallbackServerContext* /*context*/, AttachCall call) {
      EXPECT_EQ(call.from, "a/1");
      EXPECT_EQ(call.session, TestSession());
      EXPECT_EQ(call.turn, (fleet::TurnId{3, 4}));
      return new NumberedStream(std::move(call), messages, end, &written_);
    }});
    a_.client->SetReplicas({b_.lease()});
  }

  std::atomic<uint64_t> written_ = 0;
  TestReplica a_;
  TestReplica b_;
};

TEST_F(PeerRelayTest, EachMessageComesOnce) {
  Start(1000, absl::OkStatus());
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  EXPECT_TRUE(reader.End().ok());
  EXPECT_EQ(reader.messages(), 1000u);
  EXPECT_EQ(a_.open_calls(), 0u);
}

TEST_F(PeerRelayTest, TheErrorOfTheTurnComesToo) {
  Start(2, absl::AbortedError("the session has moved"));
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  EXPECT_EQ(reader.End(), absl::AbortedError("the session has moved"));
  EXPECT_EQ(reader.messages(), 2u);
}

// Before the first message, an error that the client cannot mend is UNAVAILABLE.
TEST_F(PeerRelayTest, AnErrorOfTheOtherReplicaIsNotTheClients) {
  Start(0, absl::PermissionDeniedError("not you"));
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  const absl::Status end = reader.End();
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
}

// gRPC's own end of a call at a server that is ending, and the end of a turn that was cancelled.
TEST_F(PeerRelayTest, OnlyACancelledTurnIsCancelled) {
  for (const char* const text : {"CANCELLED", "the turn was cancelled"}) {
    TestReplica owner("c/3");
    owner.Listen({.attach = [&](grpc::CallbackServerContext* /*context*/, AttachCall call) {
      return new NumberedStream(std::move(call), 1, absl::CancelledError(text), &written_);
    }});
    a_.client->SetReplicas({owner.lease()});
    Reader reader(/*hurries=*/true);
    reader.Begin(a_.client.get(), reader.Request("c/3"));
    EXPECT_EQ(absl::IsUnavailable(reader.End()), text == std::string("CANCELLED"));
  }
}

TEST_F(PeerRelayTest, AnErrorOfTheSessionIsTheClients) {
  Start(0, absl::NotFoundError("no such session"));
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  EXPECT_EQ(reader.End(), absl::NotFoundError("no such session"));
}

// The owner cannot write on while the client of the relay does not read.
TEST_F(PeerRelayTest, ASlowReaderStopsTheOwner) {
  constexpr uint64_t kMany = 4'000'000;
  Start(kMany, absl::OkStatus());
  Reader reader(/*hurries=*/false);
  reader.Begin(a_.client.get(), reader.Request());
  ASSERT_TRUE(WaitUntil([&] { return reader.messages() == 1; }));
  reader.Next();
  ASSERT_TRUE(WaitUntil([&] { return reader.messages() == 2; }));
  reader.Cancel();
  EXPECT_TRUE(absl::IsCancelled(reader.End()));
  EXPECT_EQ(reader.messages(), 2u);
  EXPECT_LT(written_, kMany);
}

TEST_F(PeerRelayTest, ACancelledStreamEndsOnBothSides) {
  Start(1, std::nullopt);
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  ASSERT_TRUE(WaitUntil([&] { return reader.messages() == 1; }));
  reader.Cancel();
  EXPECT_TRUE(absl::IsCancelled(reader.End()));
  reader.Cancel();  // of no use
  EXPECT_EQ(a_.open_calls(), 0u);
}

TEST_F(PeerRelayTest, TheLeaseOfTheOwnerIsOver) {
  Start(1, std::nullopt);
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  ASSERT_TRUE(WaitUntil([&] { return reader.messages() == 1; }));
  reader.Drop();
  a_.client->SetReplicas({});
  EXPECT_TRUE(absl::IsUnavailable(reader.End()));
}

TEST_F(PeerRelayTest, TheOwnerShutsDown) {
  Start(1, std::nullopt);
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  ASSERT_TRUE(WaitUntil([&] { return reader.messages() == 1; }));
  b_.server->Shutdown();
  EXPECT_TRUE(absl::IsUnavailable(reader.End()));
}

TEST_F(PeerRelayTest, AReplicaThatIsNotKnown) {
  Start(1, std::nullopt);
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request("c/3"));
  EXPECT_TRUE(absl::IsUnavailable(reader.End()));
}

TEST_F(PeerRelayTest, AReplicaThatRelaysNothing) {
  b_.Listen();
  a_.client->SetReplicas({b_.lease()});
  Reader reader(/*hurries=*/true);
  reader.Begin(a_.client.get(), reader.Request());
  EXPECT_TRUE(absl::IsUnavailable(reader.End()));
}

TEST_F(PeerRelayTest, MalformedRequests) {
  Start(1, absl::OkStatus());
  const auto stub = peer::v1::Peer::NewStub(
      grpc::CreateChannel(b_.lease().peer_address, grpc::InsecureChannelCredentials()));
  const auto refusal = [&](const peer::v1::AttachRequest& request) {
    grpc::ClientContext context;
    return stub->Attach(&context, request)->Finish();
  };
  peer::v1::AttachRequest request;
  EXPECT_EQ(refusal(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_sender("a/1");
  EXPECT_EQ(refusal(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_session()->set_session_id(std::string(32, '1'));
  EXPECT_EQ(refusal(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_turn_id(std::string(32, '2'));
  request.set_generate_request("\xff");
  const grpc::Status status = refusal(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message().rfind("generate_request: ", 0), 0u) << status.error_message();
}

// A message may be larger than gRPC's default limit, 4 MiB.
TEST_F(PeerRelayTest, ALargeMessageComes) {
  class LargeStream final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
   public:
    LargeStream() {
      response_.mutable_delta()->set_text(std::string(size_t{16} << 20, 'x'));
      StartWriteAndFinish(&response_, {}, grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    v1::GenerateResponse response_;
  };
  b_.Listen({.attach = [](grpc::CallbackServerContext* /*context*/, const AttachCall& /*call*/) {
    return new LargeStream();
  }});
  a_.client->SetReplicas({b_.lease()});
  std::atomic<size_t> bytes = 0;
  std::shared_ptr<RelayedStream> stream;
  absl::Notification begun;
  absl::Notification ended;
  RelayRequest request;
  request.peer = "b/2";
  request.session = TestSession();
  request.turn = {3, 4};
  request.on_message = [&](const v1::GenerateResponse& message) {
    bytes = message.delta().text().size();
    begun.WaitForNotification();
    stream->Next();
  };
  request.on_end = [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    ended.Notify();
  };
  stream = a_.client->Relay(std::move(request));
  begun.Notify();
  ended.WaitForNotification();
  EXPECT_EQ(bytes, size_t{16} << 20);
}

// The owner's side of the turns that peers cancel.
class PeerCancelTest : public PeerRelayTest {
 protected:
  using Cancelled = std::function<void(const absl::StatusOr<v1::Turn>& turn)>;

  // The owner answers with this; absent: never.
  void AnswerWith(std::optional<absl::StatusOr<v1::Turn>> answer) {
    b_.Listen(
        {.cancel = [this, answer = std::move(answer)](
                       const SessionKey& session, const fleet::TurnId& turn, Cancelled cancelled) {
          EXPECT_EQ(session, TestSession());
          EXPECT_EQ(turn, (fleet::TurnId{3, 4}));
          if (answer.has_value()) return cancelled(*answer);
          absl::MutexLock lock(&mutex_);
          waiting_ = std::move(cancelled);
        }});
    a_.client->SetReplicas({b_.lease()});
  }
  bool is_asked() {
    absl::MutexLock lock(&mutex_);
    return waiting_ != nullptr;
  }
  void AnswerNow(const absl::StatusOr<v1::Turn>& answer) {
    absl::MutexLock lock(&mutex_);
    waiting_(answer);
  }
  // The call's answer may come when the test has ended.
  struct Answer {
    absl::Notification done;
    absl::StatusOr<v1::Turn> turn;

    absl::StatusOr<v1::Turn> Wait() {
      done.WaitForNotification();
      return turn;
    }
  };
  std::shared_ptr<Answer> Begin(const fleet::ReplicaName& peer = "b/2") {
    const auto answer = std::make_shared<Answer>();
    a_.client->CancelTurn(peer, TestSession(), {3, 4},
                          [answer](const absl::StatusOr<v1::Turn>& turn) {
                            answer->turn = turn;
                            answer->done.Notify();
                          });
    return answer;
  }
  absl::StatusCode CodeOf(const absl::StatusOr<v1::Turn>& turn) { return turn.status().code(); }

 private:
  absl::Mutex mutex_;
  Cancelled waiting_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(PeerCancelTest, ATurnIsCancelledOnItsOwner) {
  v1::Turn turn;
  turn.set_turn_id("the turn");
  turn.set_state(v1::TURN_STATE_ABANDONED);
  AnswerWith(turn);
  const absl::StatusOr<v1::Turn> cancelled = Begin()->Wait();
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->turn_id(), "the turn");
  EXPECT_EQ(cancelled->state(), v1::TURN_STATE_ABANDONED);
  EXPECT_EQ(a_.open_calls(), 0u);
}

TEST_F(PeerCancelTest, OnlyErrorsOfTheTurnAreTheClients) {
  AnswerWith(absl::AbortedError("it does not run here"));
  EXPECT_EQ(Begin()->Wait().status(), absl::AbortedError("it does not run here"));
  EXPECT_EQ(CodeOf(Begin("c/3")->Wait()), absl::StatusCode::kUnavailable) << "it is not known";
  for (const absl::Status& error :
       {absl::UnauthenticatedError("who?"), absl::PermissionDeniedError("not you"),
        absl::UnimplementedError("an older replica"), absl::ResourceExhaustedError("too many")}) {
    TestReplica owner("c/3");
    owner.Listen({.cancel = [&](const SessionKey& /*session*/, const fleet::TurnId& /*turn*/,
                                const Cancelled& cancelled) { cancelled(error); }});
    a_.client->SetReplicas({owner.lease()});
    EXPECT_EQ(CodeOf(Begin("c/3")->Wait()), absl::StatusCode::kUnavailable) << error;
  }
}

TEST_F(PeerCancelTest, AReplicaThatCancelsNothing) {
  b_.Listen();
  a_.client->SetReplicas({b_.lease()});
  EXPECT_EQ(CodeOf(Begin()->Wait()), absl::StatusCode::kUnavailable);
}

TEST_F(PeerCancelTest, TheCallEndsWithTheLeaseOfTheOwner) {
  AnswerWith(std::nullopt);
  const std::shared_ptr<Answer> answer = Begin();
  ASSERT_TRUE(WaitUntil([&] { return is_asked(); }));
  a_.client->SetReplicas({});
  EXPECT_EQ(CodeOf(answer->Wait()), absl::StatusCode::kUnavailable);
  AnswerNow(v1::Turn());  // late
}

TEST_F(PeerCancelTest, TheOwnerShutsDown) {
  AnswerWith(std::nullopt);
  const std::shared_ptr<Answer> answer = Begin();
  ASSERT_TRUE(WaitUntil([&] { return is_asked(); }));
  b_.server->Shutdown();
  EXPECT_EQ(CodeOf(answer->Wait()), absl::StatusCode::kUnavailable);
  AnswerNow(v1::Turn());
}

TEST_F(PeerCancelTest, MalformedRequests) {
  AnswerWith(v1::Turn());
  const auto stub = peer::v1::Peer::NewStub(
      grpc::CreateChannel(b_.lease().peer_address, grpc::InsecureChannelCredentials()));
  const auto code_of = [&](const peer::v1::CancelRequest& request) {
    grpc::ClientContext context;
    v1::Turn turn;
    return stub->Cancel(&context, request, &turn).error_code();
  };
  peer::v1::CancelRequest request;
  EXPECT_EQ(code_of(request), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_sender("a/1");
  EXPECT_EQ(code_of(request), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_session()->set_session_id(std::string(32, '1'));
  EXPECT_EQ(code_of(request), grpc::StatusCode::INVALID_ARGUMENT);
}

class FewRelaysTest : public PeerRelayTest {
 protected:
  static PeerLimits Limits() {
    PeerLimits limits = PatientLimits();
    limits.max_relays = 2;
    return limits;
  }
  FewRelaysTest() : PeerRelayTest(Limits()) {}
};

TEST_F(FewRelaysTest, MoreThanTheLimit) {
  Start(1, std::nullopt);
  Reader one(true), two(true), three(true);
  one.Begin(a_.client.get(), one.Request());
  two.Begin(a_.client.get(), two.Request());
  three.Begin(a_.client.get(), three.Request());
  EXPECT_TRUE(absl::IsUnavailable(three.End())) << "the client may try again";
  one.Cancel();
  two.Cancel();
  EXPECT_FALSE(one.End().ok());
  EXPECT_FALSE(two.End().ok());
}

class SilentRelayTest : public PeerRelayTest {
 protected:
  static PeerLimits Limits() {
    PeerLimits limits = PatientLimits();
    limits.attach_timeout = absl::Milliseconds(200);
    return limits;
  }
  SilentRelayTest() : PeerRelayTest(Limits()) {}
};

TEST_F(SilentRelayTest, AnOwnerThatSaysNothing) {
  Start(0, std::nullopt);
  Reader reader(true);
  reader.Begin(a_.client.get(), reader.Request());
  EXPECT_TRUE(absl::IsUnavailable(reader.End()));
}

}  // namespace
}  // namespace longstream
