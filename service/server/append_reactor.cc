// Reads pieces of a prompt and hands them to the engine as they arrive.
#include "service/server/append_reactor.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/server/grpc_status.h"
#include "service/server/request_check.h"
#include "service/server/to_proto.h"
#include "service/server/turn_reactor.h"

namespace longstream {
namespace {

// Once the turn has begun only its end finishes the call: a malformed message cancels the turn, and
// the end then carries that refusal. So Finish is called once.
class AppendReactor final : public grpc::ServerReadReactor<v1::AppendRequest>,
                            public std::enable_shared_from_this<AppendReactor> {
 public:
  AppendReactor(grpc::CallbackServerContext* context, v1::AppendResponse* response,
                const ModelSet& models, Dispatcher* dispatcher)
      : context_(context), response_(response), models_(models), dispatcher_(dispatcher) {}

  void Begin() {
    self_ = shared_from_this();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return OnInputEnd();
    absl::Status status = turn_ == nullptr ? BeginTurn() : absl::OkStatus();
    if (status.ok()) status = TakeInput();
    if (!status.ok()) return Refuse(status);
    StartRead(&request_);
  }

  void OnCancel() override { CancelTurn(); }

  void OnDone() override {
    if (turn_ != nullptr) turn_->stream.SetReader(nullptr);
    self_.reset();
  }

 private:
  absl::Status BeginTurn() {
    absl::StatusOr<SessionId> id = SessionId::Parse(request_.session_id(), "session_id");
    if (!id.ok()) return id.status();
    absl::StatusOr<std::shared_ptr<Session>> session = dispatcher_->Find(*id);
    if (!session.ok()) return session.status();
    absl::StatusOr<std::shared_ptr<Engine>> engine = models_.Find((*session)->model());
    if (!engine.ok()) return engine.status();
    absl::StatusOr<TurnRequest> request = CheckAppend(request_, *session);
    if (!request.ok()) return request.status();
    request->deadline = DeadlineOf(*context_);
    parse_special_ = request_.parse_special();
    position_ = (*session)->View().position;

    auto turn = std::make_shared<Turn>(*std::move(request));
    // The stream is part of the turn, so the turn outlives the callback.
    turn->stream.SetReader([self = self_, stream = &turn->stream] { self->OnEvents(stream); });
    engine_ = *std::move(engine);
    absl::Status status = engine_->Start(turn);
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    turn_ = std::move(turn);
    return absl::OkStatus();
  }

  absl::Status TakeInput() {
    absl::StatusOr<std::vector<int32_t>> tokens =
        CheckInput(request_.input(), engine_->model(), position_, parse_special_);
    if (!tokens.ok()) return tokens.status();
    position_ += tokens->size();
    turn_->AddInput(*std::move(tokens));
    engine_->Wake();
    return absl::OkStatus();
  }

  void OnInputEnd() {
    if (turn_ == nullptr) {
      return Refuse(absl::InvalidArgumentError("session_id: the stream had no message"));
    }
    if (context_->IsCancelled()) return CancelTurn();
    turn_->CloseInput();
    engine_->Wake();
  }

  void CancelTurn() {
    std::shared_ptr<Turn> turn;
    {
      absl::MutexLock lock(&mutex_);
      turn = turn_;
    }
    if (turn == nullptr) return;
    turn->Cancel();
    engine_->Wake();
  }

  // The reader's end of it. The turn, if there is one, is rolled back first, so that the session is
  // free when the client learns of the refusal: the engine's end then carries this status.
  void Refuse(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      refusal_ = status;
    }
    if (turn_ == nullptr) return Finish(ToGrpc(status));
    CancelTurn();
  }

  // Nothing but the end is told to the client.
  void OnEvents(TurnStream* stream) {
    TurnStream::Item item = stream->Next();
    while (std::holds_alternative<TurnEvent>(item)) item = stream->Next();
    const auto* end = std::get_if<TurnEnd>(&item);
    if (end == nullptr) return;
    absl::Status status = end->status;
    {
      absl::MutexLock lock(&mutex_);
      if (!refusal_.ok()) status = refusal_;
    }
    if (status.ok()) {
      response_->set_position(end->position);
      ToProto(end->usage, response_->mutable_usage());
    }
    Finish(ToGrpc(status));
  }

  grpc::CallbackServerContext* const context_;
  v1::AppendResponse* const response_;
  const ModelSet& models_;
  Dispatcher* const dispatcher_;

  v1::AppendRequest request_;
  bool parse_special_ = false;
  uint64_t position_ = 0;  // of the session with all input so far
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<AppendReactor> self_;  // until OnDone

  absl::Mutex mutex_;
  std::shared_ptr<Turn> turn_;  // shared with the engine; set once
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerReadReactor<v1::AppendRequest>* NewAppendReactor(grpc::CallbackServerContext* context,
                                                             v1::AppendResponse* response,
                                                             const ModelSet& models,
                                                             Dispatcher* dispatcher) {
  auto reactor = std::make_shared<AppendReactor>(context, response, models, dispatcher);
  reactor->Begin();
  return reactor.get();
}

}  // namespace longstream
