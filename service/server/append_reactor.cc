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
#include "service/server/messages_check.h"
#include "service/server/request_check.h"
#include "service/server/to_proto.h"
#include "service/server/turn_reactor.h"

namespace longstream {
namespace {

// Once the turn has begun only its end finishes the call: a malformed message cancels the turn, and
// the end then carries that refusal. So Finish is called once. It may come while a long text waits
// for its thread: gRPC is done with the call by then, and nothing may touch it any more.
class AppendReactor final : public grpc::ServerReadReactor<v1::AppendRequest>,
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

  void OnCancel() override {
    const Begun begun = this->begun();
    if (begun.turn != nullptr) begun.Cancel(absl::CancelledError("the caller cancelled the turn"));
  }

  void OnDone() override { self_.reset(); }

 private:
  // The message that has come is not looked at.
  void Refuse(const absl::Status& status) {
    const Begun begun = this->begun();
    if (begun.turn == nullptr) return FinishCall(status);
    begun.Cancel(status);
  }

  // Messages come one after the other: the next is read when this one has been dealt with.
  void OnMessage(bool ok) {
    Begun begun = this->begun();
    if (begun.turn == nullptr) {
      const absl::StatusOr<Begun> first =
          ok ? BeginTurn() : absl::InvalidArgumentError("session_id: the stream had no message");
      if (!first.ok()) return FinishCall(first.status());
      begun = *first;
    }
    if (!ok) return OnInputEnd(begun);
    // The turn is rolled back first, so that the session is free when the client learns of it.
    if (absl::Status status = TakeInput(begun); !status.ok()) return begun.Cancel(status);
    ReadNext();
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

  // The turn, from the first message on.
  struct Begun {
    void Cancel(const absl::Status& reason) const {
      turn->Cancel(reason);
      engine->Wake();
    }

    std::shared_ptr<Engine> engine;
    std::shared_ptr<Turn> turn;  // shared with the engine
  };

  Begun begun() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return begun_;
  }

  absl::StatusOr<Begun> BeginTurn() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<SessionRoute> route = FindSession(request_.session_id(), *sessions_);
    if (!route.ok()) return route.status();
    absl::StatusOr<TurnRequest> request =
        CheckAppend(request_, route->engine->model(), std::move(route->session));
    if (!request.ok()) {
      route->engine->CountRefusal(request.status());
      return request.status();
    }
    request->deadline = DeadlineOf(*context_);
    first_ = request_;
    // Messages are taken care of, and later inputs are refused by them (CheckContinuation).
    if (request_.input().has_messages()) {
      request_.clear_input();
      first_.mutable_input()->mutable_messages()->Clear();
    } else {
      first_.clear_input();
    }

    auto turn = std::make_shared<Turn>(*std::move(request));
    // This holds the turn until it goes, and the callback holds this.
    turn->stream.SetReader([self = self_, stream = &turn->stream] { self->OnEvents(stream); });
    if (absl::Status status = route->engine->Start(turn); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    begun_ = {std::move(route->engine), std::move(turn)};
    return begun_;
  }

  absl::Status TakeInput(const Begun& begun) {
    const ServedModel& model = begun.engine->model();
    if (absl::Status status = CheckContinuation(request_, first_); !status.ok()) return status;
    absl::StatusOr<CheckedInput> input =
        CheckInput(request_.input(), model, first_.parse_special());
    if (!input.ok()) return input.status();
    // What waits for admission is bounded as well.
    num_tokens_ += input->tokens.size();
    const uint64_t context_limit = model.backend().info().context_limit;
    if (num_tokens_ > context_limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input: ", num_tokens_, " tokens exceed the model's context of ", context_limit));
    }
    begun.turn->AddInput(std::move(input->tokens), input->is_text, std::move(input->continued));
    begun.engine->Wake();
    return absl::OkStatus();
  }

  void OnInputEnd(const Begun& begun) {
    if (context_->IsCancelled()) return OnCancel();
    begun.turn->CloseInput();
    begun.engine->Wake();
  }

  // Nothing but the end is told to the client.
  void OnEvents(TurnStream* stream) {
    TurnStream::Item item = stream->Next();
    while (std::holds_alternative<TurnEvent>(item)) item = stream->Next();
    const auto* end = std::get_if<TurnEnd>(&item);
    if (end == nullptr) return;
    stream->SetReader(nullptr);  // it holds this
    if (end->status.ok()) {
      response_->set_position(end->position);
      ToProto(end->usage, response_->mutable_usage());
    }
    FinishCall(end->status);
  }

  const CallCount::Call call_;
  grpc::CallbackServerContext* const context_;
  v1::AppendResponse* const response_;
  const SessionManager* const sessions_;
  TextThreads* const threads_;

  // Of the reads, which come one after the other.
  v1::AppendRequest request_;
  v1::AppendRequest first_;  // without its input, of which messages leave an empty one
  uint64_t num_tokens_ = 0;  // of all input so far

  std::shared_ptr<AppendReactor> self_;  // until OnDone

  absl::Mutex mutex_;
  // Set once, with the first message; OnCancel may come at any time.
  Begun begun_ ABSL_GUARDED_BY(mutex_);
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
