// Reads the pieces of a prompt and passes them to the engine as they arrive.
#include "service/server/append_reactor.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/server/grpc_status.h"
#include "service/server/request_check.h"
#include "service/server/to_proto.h"
#include "service/server/turn_input.h"
#include "service/server/turn_pump.h"
#include "service/server/turn_reactor.h"

namespace longstream {
namespace {

// Once the turn has begun, only the end of the turn finishes the call. A malformed message cancels
// the turn, and the end of the turn carries the error. So Finish is called exactly once. It may be
// called while a long text waits for its thread. After Finish, no function of the call may be used.
class AppendReactor final : public grpc::ServerReadReactor<v1::AppendRequest>,
                            public TurnPump::Sink,
                            public std::enable_shared_from_this<AppendReactor> {
 public:
  AppendReactor(grpc::CallbackServerContext* context, v1::AppendResponse* response,
                const SessionManager* sessions, TextThreads* threads, CallCount* calls)
      : call_(calls),
        context_(context),
        response_(response),
        sessions_(sessions),
        threads_(threads) {}

  void Begin() {
    self_ = shared_from_this();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    const size_t text_bytes = ok ? TextBytes(request_.input()) : 0;
    const absl::Status taken = threads_->Run(text_bytes, request_.ByteSizeLong(),
                                             [self = self_, ok] { self->OnMessage(ok); });
    if (!taken.ok()) Refuse(taken);
  }

  void OnCancel() override { pump_.Cancel(absl::CancelledError("the caller cancelled the turn")); }

  void OnDone() override { self_.reset(); }

 private:
  // Handles one message, then reads the next one.
  void OnMessage(bool ok) {
    if (!pump_.started()) {
      const absl::Status begun =
          ok ? BeginTurn() : absl::InvalidArgumentError("session_id: the stream had no message");
      if (!begun.ok()) return FinishCall(begun);
    }
    if (!ok) return OnInputEnd();
    if (absl::Status status = TakeInput(); !status.ok()) return Refuse(status);
    ReadNext();
  }

  // Ends the call with an error. A turn that has begun is cancelled and rolled back first, so that
  // the session is free when the client gets the error.
  void Refuse(const absl::Status& status) {
    if (!pump_.started()) return FinishCall(status);
    pump_.Cancel(status);
  }

  void ReadNext() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!finished_) StartRead(&request_);
  }

  void FinishCall(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
    Finish(ToGrpc(status));
  }

  absl::Status BeginTurn() {
    absl::StatusOr<NewTurn> turn = FindTurn(request_.session_id(), *sessions_);
    if (!turn.ok()) return turn.status();
    absl::StatusOr<TurnRequest> request = CheckAppend(request_);
    if (!request.ok()) return turn->Refuse(request.status());
    if (absl::Status status = turn->Lease(ExpectedPosition(request_)); !status.ok()) {
      return turn->Refuse(status);
    }
    input_.emplace(turn->model(), turn->history(), request_.parse_special());
    const bool has_messages = request_.input().has_messages();
    if (has_messages) {
      absl::Status status =
          input_->ReadMessages(request_.input().messages(), turn->history(), &*request);
      if (!status.ok()) return turn->Refuse(status);
    }
    request->deadline = DeadlineFrom(context_->raw_deadline());
    first_ = request_;
    if (has_messages) {
      // Keep an empty `messages` in first_. CheckContinuation then knows that no input may follow.
      request_.clear_input();
      first_.mutable_input()->mutable_messages()->Clear();
    } else {
      first_.clear_input();
    }
    return pump_.Start(*std::move(turn), *std::move(request), self_);
  }

  absl::Status TakeInput() {
    if (absl::Status status = CheckContinuation(request_, first_); !status.ok()) return status;
    absl::StatusOr<std::vector<int32_t>> tokens = input_->Read(request_.input());
    if (!tokens.ok()) return tokens.status();
    pump_.turn().AddInput(*tokens);
    return absl::OkStatus();
  }

  void OnInputEnd() {
    if (context_->IsCancelled()) return OnCancel();
    pump_.turn().CloseInput();
  }

  // The client gets no message for an event, only the response at the end.
  bool OnEvent(const TurnEvent& /*event*/) override { return false; }
  void OnEnd(const TurnEnd& end) override {
    if (end.status.ok()) {
      response_->set_position(end.position);
      ToProto(end.usage, response_->mutable_usage());
    }
    FinishCall(end.status);
  }

  const CallCount::Call call_;
  grpc::CallbackServerContext* const context_;
  v1::AppendResponse* const response_;
  const SessionManager* const sessions_;
  TextThreads* const threads_;

  // Used by OnMessage, which runs for one message at a time.
  v1::AppendRequest request_;
  v1::AppendRequest first_;  // the first message without its input
  std::optional<TurnInput> input_;

  TurnPump pump_{this};
  std::shared_ptr<AppendReactor> self_;  // keeps this object alive until OnDone

  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerReadReactor<v1::AppendRequest>* NewAppendReactor(grpc::CallbackServerContext* context,
                                                             v1::AppendResponse* response,
                                                             const SessionManager* sessions,
                                                             TextThreads* threads,
                                                             CallCount* calls) {
  auto reactor = std::make_shared<AppendReactor>(context, response, sessions, threads, calls);
  reactor->Begin();
  return reactor.get();
}

}  // namespace longstream
