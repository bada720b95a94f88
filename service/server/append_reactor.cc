// Reads the pieces of a prompt and passes them to the engine as they arrive.
#include "service/server/append_reactor.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/interceptors/request_id.h"
#include "service/server/request_check.h"
#include "service/server/request_digest.h"
#include "service/server/to_proto.h"
#include "service/server/transfer/client_watch.h"
#include "service/server/transport/grpc_status.h"
#include "service/server/turn_input.h"
#include "service/server/turn_reactor.h"
#include "service/serving/turns/turn_pump.h"

namespace longstream {
namespace {

// Once the turn has begun, only the end of the turn finishes the call. A malformed message cancels
// the turn, and the end of the turn carries the error. So Finish is called exactly once. It may be
// called while a long text waits for its thread. After Finish, no function of the call may be used.
class AppendReactor final : public grpc::ServerReadReactor<RawRequest<v1::AppendRequest>>,
                            public TurnPump::Sink,
                            public std::enable_shared_from_this<AppendReactor> {
 public:
  AppendReactor(grpc::CallbackServerContext* context, const Caller& caller,
                v1::AppendResponse* response, SessionManager* sessions, TextThreads* threads,
                RequestMemory* memory, CallCount* calls)
      : call_(calls),
        context_(context),
        tenant_(caller.tenant),
        response_(response),
        sessions_(sessions),
        threads_(threads),
        memory_(memory),
        watch_(context, sessions->timers(), sessions->client_timeout()) {}

  void Begin() {
    self_ = shared_from_this();
    StartRead(&raw_);
  }

  // `ok` is false if there is no further message: the client has closed its side, or the call has
  // failed. A message that cannot be decoded has `ok`, because gRPC does not decode it.
  void OnReadDone(bool ok) override {
    if (repeats_.has_value()) watch_.End();
    if (!ok) return OnLastMessage();
    absl::StatusOr<Decoded<v1::AppendRequest>> decoded = Decode(raw_, memory_);
    if (!decoded.ok()) return Refuse(decoded.status());
    message_.emplace(*std::move(decoded));
    const bool is_first = !pump_.started() && !repeats_.has_value();
    if (!is_first) return TakeMessage();
    const v1::AppendRequest& message = *message_->message;
    const absl::StatusOr<SessionId> session = SessionId::Parse(message.session_id(), "session_id");
    if (!session.ok()) return Refuse(session.status());
    // NameTurn refuses a wrong turn id.
    std::optional<TurnId> id;
    if (const auto parsed = SessionId::Parse(message.turn_id(), "turn_id"); parsed.ok()) {
      id = *parsed;
    }
    sessions_->LoadTurn({tenant_, *session}, id, [self = self_](absl::StatusOr<NewTurn> turn) {
      if (!turn.ok()) return self->Refuse(turn.status());
      self->turn_.emplace(*std::move(turn));
      self->TakeMessage();
    });
  }

  void OnSendInitialMetadataDone(bool ok) override {
    if (repeats_.has_value()) return ok ? AnswerRepeat() : FinishCall(watch_.Why());
    if (!ok || context_->IsCancelled()) return OnCancel();
    if (entry_ != nullptr) {
      if (absl::Status status = entry_->SetDigest(digest_.Finish()); !status.ok()) {
        return Refuse(status);
      }
    }
    pump_.turn().CloseInput();
  }

  void OnCancel() override { pump_.Cancel(absl::CancelledError("the caller cancelled the turn")); }

  void OnDone() override { self_.reset(); }

 private:
  // Handles message_ on the thread that its text needs.
  void TakeMessage() {
    const size_t text_bytes = TextBytes(message_->message->input());
    const absl::Status taken =
        threads_->Run(text_bytes, message_->charge.bytes(), [self = self_] { self->OnMessage(); });
    if (!taken.ok()) Refuse(taken);
  }

  // Handles message_, then reads the next one.
  void OnMessage() {
    const bool is_first = !pump_.started() && !repeats_.has_value();
    if (is_first) has_id_ = !message_->message->turn_id().empty();
    if (has_id_) digest_.Add(*message_->message);
    absl::Status status = is_first ? BeginTurn() : absl::OkStatus();
    if (!status.ok()) {
      entry_.reset();  // the id is free again before the client gets the error
      return FinishCall(status);
    }
    if (repeats_.has_value()) {
      message_.reset();
      return ReadNext();
    }
    status = TakeInput();
    message_.reset();
    if (!status.ok()) return Refuse(status);
    ReadNext();
  }

  // gRPC does not say whether the client has closed its side or the call has failed, for example
  // because a message was too large. It cannot send the initial metadata of a call that has failed.
  void OnLastMessage() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!pump_.started() && !repeats_.has_value()) {
      return FinishCall(absl::InvalidArgumentError("session_id: the stream had no message"));
    }
    absl::MutexLock lock(&mutex_);
    if (!finished_) StartSendInitialMetadata();
  }

  // Ends the call with an error. A turn that has begun is cancelled and rolled back first, so that
  // the session is free when the client gets the error.
  void Refuse(const absl::Status& status) {
    if (!pump_.started()) return FinishCall(status);
    pump_.Cancel(status);
  }

  void ReadNext() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    // No turn of a repeat is with the engine, which ends the turn of a silent client.
    if (repeats_.has_value()) watch_.Begin(self_);
    StartRead(&raw_);
  }

  void FinishCall(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
    Finish(ToGrpc(status));
  }

  absl::Status BeginTurn() {
    v1::AppendRequest& message = *message_->message;
    NewTurn turn = *std::exchange(turn_, std::nullopt);
    absl::StatusOr<TurnRequest> request = CheckAppend(message);
    if (!request.ok()) return turn.Refuse(request.status());
    bool is_repeat = false;
    if (absl::Status status = NameTurn(&turn, &is_repeat); !status.ok()) return turn.Refuse(status);
    if (is_repeat) {
      repeats_.emplace(std::move(turn));
      return absl::OkStatus();
    }
    if (absl::Status status = turn.Lease(ExpectedPosition(message)); !status.ok()) {
      return turn.Refuse(status);
    }
    input_.emplace(turn.model(), turn.history(), message.parse_special());
    const bool has_messages = message.input().has_messages();
    if (has_messages) {
      absl::Status status =
          input_->ReadMessages(message.mutable_input()->mutable_messages(), turn.history(),
                               turn.host_memory(), &message_->charge, &*request, turn.durable());
      if (!status.ok()) return turn.Refuse(status);
      message.clear_input();
    }
    request->deadline = DeadlineFrom(context_->raw_deadline());
    request->request_id = RequestIdOf(*context_);
    v1::Input input;
    input.Swap(message.mutable_input());
    first_ = message;
    // An empty `messages` in first_ tells CheckContinuation that no input may follow.
    if (has_messages) {
      message.clear_input();
      first_.mutable_input()->mutable_messages();
    } else {
      message.mutable_input()->Swap(&input);
      first_.clear_input();
    }
    return pump_.Start(std::move(turn), *std::move(request), self_);
  }

  // Gives the turn its id. *is_repeat: it is a turn that was committed.
  absl::Status NameTurn(NewTurn* turn, bool* is_repeat) {
    const v1::AppendRequest& message = *message_->message;
    if (message.turn_id().empty()) {
      turn_id_ = turn->Id(TurnKind::kAppend);
      return absl::OkStatus();
    }
    const absl::StatusOr<SessionId> id = SessionId::Parse(message.turn_id(), "turn_id");
    if (!id.ok()) return id.status();
    const absl::StatusOr<NewTurn::How> how = turn->Name(*id, TurnKind::kAppend, /*digest=*/"");
    if (!how.ok()) return how.status();
    turn_id_ = id->ToString();
    *is_repeat = *how == NewTurn::How::kReplayed;
    entry_ = turn->entry();
    return absl::OkStatus();
  }

  // All messages of a repeated Append have arrived. The answer may be in the store.
  void AnswerRepeat() {
    sessions_->LoadAnswer(
        *repeats_, [self = self_](const absl::StatusOr<SessionTurns::Committed>& committed) {
          self->FinishCall(committed.ok() ? self->CheckRepeat(*committed) : committed.status());
        });
  }
  absl::Status CheckRepeat(const SessionTurns::Committed& committed) {
    // Stores of earlier versions have no digests of Appends.
    if (!committed.digest.empty() && digest_.Finish() != committed.digest) {
      return absl::AlreadyExistsError(
          absl::StrCat("turn_id: turn ", turn_id_, " of this session was another request"));
    }
    Respond(committed.end);
    return absl::OkStatus();
  }

  absl::Status TakeInput() {
    v1::AppendRequest& message = *message_->message;
    if (absl::Status status = CheckContinuation(message, first_); !status.ok()) return status;
    absl::StatusOr<std::vector<int32_t>> tokens =
        input_->Read(message.mutable_input(), &message_->charge);
    if (!tokens.ok()) return tokens.status();
    if (absl::Status status = pump_.turn().TakeInputRoom(tokens->size()); !status.ok()) {
      return status;
    }
    pump_.turn().AddInput(*tokens);
    return absl::OkStatus();
  }

  // The client gets no message for an event, only the response at the end.
  bool OnEvent(const TurnEvent& /*event*/) override { return false; }
  void OnEnd(const TurnEnd& end) override {
    if (end.status.ok()) Respond(end);
    FinishCall(end.status);
  }

  void Respond(const TurnEnd& end) {
    response_->set_position(end.position);
    ToProto(end.usage, response_->mutable_usage());
    response_->set_turn_id(turn_id_);
  }

  const CallCount::Call call_;
  grpc::CallbackServerContext* const context_;
  const std::string tenant_;
  v1::AppendResponse* const response_;
  SessionManager* const sessions_;
  TextThreads* const threads_;
  RequestMemory* const memory_;

  // Used by OnReadDone, TakeMessage and OnMessage, which run for one message at a time.
  RawRequest<v1::AppendRequest> raw_;
  std::optional<Decoded<v1::AppendRequest>> message_;
  v1::AppendRequest first_;  // the first message without its input
  std::optional<TurnInput> input_;
  bool has_id_ = false;   // the client chose the id of the turn
  MessageDigest digest_;  // of all messages of such a turn
  std::string turn_id_;
  std::optional<NewTurn> turn_;       // until it begins
  std::shared_ptr<TurnEntry> entry_;  // of a turn whose id the client chose
  std::optional<NewTurn> repeats_;    // the turn was committed before
  ClientWatch watch_;                 // of such a call

  TurnPump pump_{this};
  std::shared_ptr<AppendReactor> self_;  // keeps this object alive until OnDone

  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerReadReactor<RawRequest<v1::AppendRequest>>* NewAppendReactor(
    grpc::CallbackServerContext* context, const Caller& caller, v1::AppendResponse* response,
    SessionManager* sessions, TextThreads* threads, RequestMemory* memory, CallCount* calls) {
  auto reactor =
      std::make_shared<AppendReactor>(context, caller, response, sessions, threads, memory, calls);
  reactor->Begin();
  return reactor.get();
}

}  // namespace longstream
