// The reactors of calls that stream the events of one turn. One message is in flight at a time.
#ifndef LONGSTREAM_SERVICE_SERVER_TURN_REACTORS_H_
#define LONGSTREAM_SERVICE_SERVER_TURN_REACTORS_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "longstream/v1/longstream.pb.h"
#include "service/server/compare/compare_tools.h"
#include "service/server/compare/live_twin.h"
#include "service/server/compare/twin_plan.h"
#include "service/server/compare/twin_stream.h"
#include "service/server/relay/relayed_turn.h"
#include "service/server/text_threads.h"
#include "service/server/to_proto.h"
#include "service/server/transport/call_count.h"
#include "service/server/transport/grpc_status.h"
#include "service/serving/session_manager.h"
#include "service/serving/turns/turn_pump.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {

// A turn that holds its session's lease, and its checked request; or a turn that exists already.
struct CheckedTurn {
  explicit CheckedTurn(NewTurn new_turn) : turn(std::move(new_turn)) {}

  NewTurn turn;
  TurnRequest request;
  TurnHandle running{};  // the turn exists and runs; the call reads it behind `place`
  TurnStream::Place place{};
  std::string turn_id{};
  v1::Attach how = v1::ATTACH_NEW;
  std::optional<TwinPlan> twin{};
};

// A call that runs one turn. `self_` keeps the reactor alive until OnDone. Pending work keeps it
// alive too.
template <typename Response>
class TurnReactor : public grpc::ServerWriteReactor<Response>,
                    public TurnPump::Sink,
                    public std::enable_shared_from_this<TurnReactor<Response>> {
 public:
  // Checks the request and takes the lease of the new turn. Called once. Holds the request, and
  // frees it when it is destroyed.
  using Check = std::function<absl::StatusOr<CheckedTurn>(NewTurn turn)>;

  TurnReactor(CallCount* calls, const grpc::CallbackServerContext* context,
              SessionManager* sessions, Check check)
      : call_(calls), context_(context), sessions_(sessions), check_(std::move(check)) {}

  // Begins with the new turn. `text_bytes`, `held_bytes`: as for TextThreads::Run.
  void Begin(absl::StatusOr<NewTurn> turn, size_t text_bytes, uint64_t held_bytes,
             TextThreads* threads) {
    KeepAlive();
    absl::Status taken = turn.status();
    if (taken.ok()) {
      turn_.emplace(*std::move(turn));
      taken = threads->Run(text_bytes, held_bytes, [self = self_] { self->Start(); });
    }
    if (!taken.ok()) Refuse(taken);
  }

  void OnWriteDone(bool ok) override { EventWritten(ok); }
  void OnCancel() override { pump_.Cancel(absl::CancelledError("the caller cancelled the turn")); }
  void OnDone() override { self_.reset(); }

 protected:
  const TurnRequest& request() const { return pump_.turn().request(); }
  const ServedModel& model() const { return pump_.turn().model(); }
  const std::string& turn_id() const { return turn_id_; }
  v1::Attach how() const { return how_; }
  // The message of the latest event.
  const Response& response() const { return response_; }

  // The turn has been checked and is started now.
  virtual void PrepareTurn(CheckedTurn* /*checked*/) {}
  virtual void WriteEvent() { this->StartWrite(&response_); }
  // That message was written.
  void EventWritten(bool ok) { pump_.Written(ok); }
  // The call begins. The object exists until OnDone.
  void KeepAlive() { self_ = this->shared_from_this(); }
  // The turn runs elsewhere: the request is freed.
  void Forget() { check_ = nullptr; }
  // Ends the call, whose turn has ended.
  void WriteEnd(const TurnEnd& end) {
    if (!end.status.ok()) return this->Finish(ToGrpc(end.status));
    response_.Clear();
    TranslateEnd(end, &response_);
    this->StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnEnd(const TurnEnd& end) override { WriteEnd(end); }

  // Writes the message for an event. Returns false if the event needs no message.
  virtual bool Translate(const TurnEvent& event, Response* response) = 0;
  // Writes the last message of a turn that ended with OK.
  virtual void TranslateEnd(const TurnEnd& end, Response* response) = 0;

 private:
  // Ends the call before its turn has begun.
  void Refuse(const absl::Status& status) {
    check_ = nullptr;  // the request is freed before the client gets the error
    this->Finish(ToGrpc(status));
  }

  void Start() {
    // The caller may have cancelled the call while its text waited for this thread.
    const Check check = std::exchange(check_, nullptr);
    NewTurn turn = *std::exchange(turn_, std::nullopt);
    absl::StatusOr<CheckedTurn> checked = absl::CancelledError("the caller cancelled the call");
    if (!context_->IsCancelled()) checked = check(std::move(turn));
    if (!checked.ok()) return this->Finish(ToGrpc(checked.status()));
    turn_id_ = std::move(checked->turn_id);
    how_ = checked->how;
    if (how_ == v1::ATTACH_REPLAYED) return Replay(*std::move(checked));
    PrepareTurn(&*checked);
    const absl::Status status =
        checked->running
            ? pump_.Attach(std::move(checked->running), checked->place, self_)
            : pump_.Start(std::move(checked->turn), std::move(checked->request), self_);
    if (!status.ok()) this->Finish(ToGrpc(status));
  }

  // Reads the answer of a committed turn, which may be in the store.
  void Replay(CheckedTurn checked) {
    const auto held = std::make_shared<CheckedTurn>(std::move(checked));
    sessions_->LoadAnswer(held->turn, [self = self_,
                                       held](absl::StatusOr<SessionTurns::Committed> committed) {
      absl::Status status = committed.status();
      if (status.ok()) {
        held->turn.CountResumed("replayed");
        status = self->pump_.Attach(held->turn.Replay(*std::move(committed)), held->place, self);
      } else {
        status = held->turn.Refuse(status);
      }
      if (!status.ok()) self->Finish(ToGrpc(status));
    });
  }

  bool OnEvent(const TurnEvent& event) override {
    response_.Clear();
    if (!Translate(event, &response_)) return false;
    WriteEvent();
    return true;
  }

  const CallCount::Call call_;
  const grpc::CallbackServerContext* const context_;
  SessionManager* const sessions_;
  Check check_;
  std::optional<NewTurn> turn_;  // until Start
  TurnPump pump_{this};
  std::string turn_id_;
  v1::Attach how_ = v1::ATTACH_UNSPECIFIED;
  Response response_;                  // the message in flight
  std::shared_ptr<TurnReactor> self_;  // keeps this object alive until OnDone
};

class GenerateReactor final : public TurnReactor<v1::GenerateResponse>, public TwinStream::Writer {
 public:
  // `twin_tools`: makes the tools of a twin.
  GenerateReactor(CallCount* calls, const grpc::CallbackServerContext* context,
                  SessionManager* sessions, Check check, std::function<CompareTools()> twin_tools)
      : TurnReactor(calls, context, sessions, std::move(check)),
        twin_tools_(std::move(twin_tools)) {}

  // The turn runs on another replica. `ended`: what became of it there.
  void Relay(Relays& relays, RelayRequest request, std::function<void(const absl::Status&)> ended) {
    KeepAlive();
    Forget();
    const auto relayed = std::make_shared<RelayedTurn>(
        RelayedTurn::Call{[this](v1::GenerateResponse message) {
                            relayed_message_ = std::move(message);
                            StartWrite(&relayed_message_);
                          },
                          [this, ended = std::move(ended)](const absl::Status& status) {
                            ended(status);
                            Finish(ToGrpc(status));
                          }});
    {
      absl::MutexLock lock(&mutex_);
      relayed_ = relayed;
      if (cancelled_) relayed->Cancel();
    }
    relayed->Begin(relays, std::move(request));
  }

  void OnWriteDone(bool ok) override {
    if (const auto relayed = Relayed(); relayed != nullptr) return relayed->Written(ok);
    if (stream_ == nullptr) return EventWritten(ok);
    const auto self = shared_from_this();  // the call may end meanwhile
    if (!ok) OnCancel();
    if (stream_->Written()) EventWritten(ok);
    stream_->Look();
  }
  void OnCancel() override {
    TurnReactor::OnCancel();
    if (const auto relayed = Relayed(/*cancelled=*/true); relayed != nullptr) relayed->Cancel();
    const std::shared_ptr<LiveTwin> twin = SharedTwin();
    if (twin == nullptr) return;
    const auto self = shared_from_this();
    twin->Drop(absl::CancelledError("the caller cancelled the turn"));
    stream_->Look();
  }

 protected:
  void PrepareTurn(CheckedTurn* checked) override {
    if (!checked->twin.has_value()) return;
    auto ready = [weak = std::weak_ptr<TurnReactor>(shared_from_this()), this] {
      if (const auto self = weak.lock()) stream_->Look();
    };
    const uint64_t known_tokens = checked->request.forced_tokens.size();
    twin_ = std::make_shared<LiveTwin>(*std::move(checked->twin), twin_tools_(), std::move(ready));
    stream_ = std::make_unique<TwinStream>(twin_, known_tokens, this);
    checked->request.logits = twin_->MakeSink();
    absl::MutexLock lock(&mutex_);
    shared_twin_ = twin_;
  }
  void WriteEvent() override {
    if (stream_ == nullptr) return TurnReactor::WriteEvent();
    stream_->Write(&response(), static_cast<uint64_t>(response().delta().token_ids_size()));
  }
  void OnEnd(const TurnEnd& end) override {
    if (stream_ == nullptr) return TurnReactor::WriteEnd(end);
    end_ = end;
    if (end.status.ok()) {
      twin_->TurnEnded(end.usage.generated_tokens);
    } else {
      twin_->Drop(end.status);
    }
    stream_->End();
  }
  void Write(const v1::GenerateResponse* message) override { StartWrite(message); }
  void WriteEnd() override { TurnReactor::WriteEnd(end_); }

  bool Translate(const TurnEvent& event, v1::GenerateResponse* response) override {
    ToProto(event, model().tokenizer(), response);
    if (const auto* started = std::get_if<StartedEvent>(&event)) {
      Describe(model(), started->in_thoughts, response->mutable_started());
      response->mutable_started()->set_turn_id(turn_id());
      response->mutable_started()->set_how(how());
      if (twin_ != nullptr) twin_->ToProto(response->mutable_started()->mutable_twin());
    }
    return true;
  }
  void TranslateEnd(const TurnEnd& end, v1::GenerateResponse* response) override {
    ToProto(end, response->mutable_finish());
    if (twin_ != nullptr) twin_->ToProto(response->mutable_finish()->mutable_twin());
  }

 private:
  std::shared_ptr<LiveTwin> SharedTwin() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return shared_twin_;
  }

  // nullptr: the turn runs here. `cancelled`: the client has gone.
  std::shared_ptr<RelayedTurn> Relayed(bool cancelled = false) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    cancelled_ |= cancelled;
    return relayed_;
  }

  const std::function<CompareTools()> twin_tools_;
  std::shared_ptr<LiveTwin> twin_;      // set before the turn starts; nullptr: there is none
  std::unique_ptr<TwinStream> stream_;  // the same
  TurnEnd end_;                         // of the turn
  absl::Mutex mutex_;
  std::shared_ptr<LiveTwin> shared_twin_ ABSL_GUARDED_BY(mutex_);  // for OnCancel, at any time
  std::shared_ptr<RelayedTurn> relayed_ ABSL_GUARDED_BY(mutex_);   // the same
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  v1::GenerateResponse relayed_message_;  // the message in flight
};

class ScoreReactor final : public TurnReactor<v1::ScoreResponse> {
 public:
  using TurnReactor::TurnReactor;

 protected:
  bool Translate(const TurnEvent& event, v1::ScoreResponse* response) override {
    const auto* score = std::get_if<ScoreEvent>(&event);
    if (score == nullptr) return false;
    ToProto(*score, model().tokenizer(), request().top_log_probs, response);
    for (const v1::TokenScore& token : response->tokens()) {
      if (!token.has_log_prob()) continue;
      summary_.set_tokens(summary_.tokens() + 1);
      summary_.set_sum_log_prob(summary_.sum_log_prob() + token.log_prob());
      summary_.set_top1_tokens(summary_.top1_tokens() + (token.top1() ? 1 : 0));
    }
    return true;
  }
  void TranslateEnd(const TurnEnd& end, v1::ScoreResponse* response) override {
    ToProto(end.usage.bytes, summary_.mutable_bytes());
    summary_.set_model(RepairUtf8(model().name()));
    *response->mutable_summary() = summary_;
  }

 private:
  v1::ScoreSummary summary_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TURN_REACTORS_H_
