// From a turn's event queue to a gRPC stream, one message in flight at a time.
#include "service/server/turn_reactor.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "service/server/grpc_status.h"
#include "service/server/messages_check.h"
#include "service/server/request_check.h"
#include "service/server/to_proto.h"

namespace longstream {
namespace {

// A call's request, found good.
struct CheckedTurn {
  std::shared_ptr<Engine> engine;
  TurnRequest request;
};

// At any moment one of two things will call Pump next: the message in flight when it is written, or
// the turn's stream when it has more (SetReader). So Pump never runs twice at once and needs no
// lock. The reactor lives until OnDone through `self_`, and whatever is under way holds it too.
template <typename Response>
class TurnReactor : public grpc::ServerWriteReactor<Response>,
                    public std::enable_shared_from_this<TurnReactor<Response>> {
 public:
  // Looks at the request, once.
  using Check = std::function<absl::StatusOr<CheckedTurn>()>;

  TurnReactor(CallCount* calls, const grpc::CallbackServerContext* context, Check check)
      : call_(calls), context_(context), check_(std::move(check)) {}

  void Begin(const v1::Input& input, TextThreads* threads) {
    self_ = this->shared_from_this();
    const absl::Status taken =
        threads->Run(TextBytes(input), input.ByteSizeLong(), [self = self_] { self->Start(); });
    if (!taken.ok()) this->Finish(ToGrpc(taken));
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      if (position_ > 0) turn_->stream.Delivered(position_);
    } else {
      Cancel();
    }
    Pump();
  }

  // May come before the turn has begun, or while it begins: one of the two sees the other.
  void OnCancel() override {
    cancelled_.store(true);
    if (begun_.load()) Cancel();
  }

  void OnDone() override {
    if (begun_.load()) turn_->stream.SetReader(nullptr);
    self_.reset();
  }

 protected:
  const Turn& turn() const { return *turn_; }
  const ServedModel& model() const { return engine_->model(); }

  // The message for an event; false: there is none to send.
  virtual bool Translate(const TurnEvent& event, Response* response) = 0;
  // The last message of a turn that ended well.
  virtual void TranslateEnd(const TurnEnd& end, Response* response) = 0;

 private:
  void Start() {
    // Who has gone while the text waited gets no work done.
    absl::StatusOr<CheckedTurn> checked =
        context_->IsCancelled() ? absl::CancelledError("the caller cancelled the call") : check_();
    if (!checked.ok()) return this->Finish(ToGrpc(checked.status()));
    engine_ = std::move(checked->engine);
    turn_ = std::make_shared<Turn>(std::move(checked->request));
    turn_->stream.SetReader([self = self_] { self->Pump(); });
    begun_.store(true);
    if (cancelled_.load()) turn_->Cancel();
    const absl::Status status = engine_->Start(turn_);
    if (!status.ok()) this->Finish(ToGrpc(status));
  }

  void Cancel() {
    turn_->Cancel();
    engine_->Wake();
  }

  void Pump() {
    while (true) {
      const TurnStream::Item item = turn_->stream.Next();
      if (std::holds_alternative<std::monostate>(item)) return;
      if (const auto* end = std::get_if<TurnEnd>(&item)) return FinishWith(*end);
      const auto& event = std::get<TurnEvent>(item);
      response_.Clear();
      if (const auto* delta = std::get_if<DeltaEvent>(&event)) position_ = delta->position;
      if (Translate(event, &response_)) return this->StartWrite(&response_);
    }
  }

  void FinishWith(const TurnEnd& end) {
    if (!end.status.ok()) return this->Finish(ToGrpc(end.status));
    response_.Clear();
    TranslateEnd(end, &response_);
    this->StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  const CallCount::Call call_;
  const grpc::CallbackServerContext* const context_;
  const Check check_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> begun_{false};     // the next two are set, and stay
  std::shared_ptr<Engine> engine_;     // shared: it must outlive the turn
  std::shared_ptr<Turn> turn_;         // shared with the engine
  std::shared_ptr<TurnReactor> self_;  // until OnDone
  Response response_;                  // of the message in flight
  uint64_t position_ = 0;              // that its delta reaches
};

class GenerateReactor final : public TurnReactor<v1::GenerateResponse> {
 public:
  using TurnReactor::TurnReactor;

 protected:
  bool Translate(const TurnEvent& event, v1::GenerateResponse* response) override {
    ToProto(event, model().tokenizer(), response);
    return true;
  }
  void TranslateEnd(const TurnEnd& end, v1::GenerateResponse* response) override {
    ToProto(end, response->mutable_finish());
  }
};

class ScoreReactor final : public TurnReactor<v1::ScoreResponse> {
 public:
  using TurnReactor::TurnReactor;

 protected:
  bool Translate(const TurnEvent& event, v1::ScoreResponse* response) override {
    const auto* score = std::get_if<ScoreEvent>(&event);
    if (score == nullptr) return false;
    ToProto(*score, model().tokenizer(), turn().request.top_log_probs, response);
    for (const v1::TokenScore& token : response->tokens()) {
      if (!token.has_log_prob()) continue;
      summary_.set_tokens(summary_.tokens() + 1);
      summary_.set_sum_log_prob(summary_.sum_log_prob() + token.log_prob());
      summary_.set_top1_tokens(summary_.top1_tokens() + (token.top1() ? 1 : 0));
    }
    return true;
  }
  void TranslateEnd(const TurnEnd& end, v1::ScoreResponse* response) override {
    summary_.mutable_bytes()->set_kv(end.usage.bytes.kv);
    summary_.mutable_bytes()->set_window(end.usage.bytes.window);
    summary_.mutable_bytes()->set_state(end.usage.bytes.state);
    *response->mutable_summary() = summary_;
  }

 private:
  v1::ScoreSummary summary_;
};

absl::StatusOr<CheckedTurn> Check(const v1::GenerateRequest& request,
                                  const SessionManager& sessions) {
  absl::StatusOr<SessionRoute> route = FindSession(request.session_id(), sessions);
  if (!route.ok()) return route.status();
  absl::StatusOr<TurnRequest> turn =
      CheckGenerate(request, route->engine->model(), std::move(route->session));
  if (!turn.ok()) {
    route->engine->CountRefusal(turn.status());
    return turn.status();
  }
  return CheckedTurn{std::move(route->engine), *std::move(turn)};
}

absl::StatusOr<CheckedTurn> Check(const v1::ScoreRequest& request, const ModelRegistry& models) {
  absl::StatusOr<std::shared_ptr<Engine>> engine = models.Find(request.model());
  if (!engine.ok()) return engine.status();
  const ServedModel& model = (*engine)->model();
  absl::StatusOr<TurnRequest> turn =
      model.backend().plugin().Can(LS_CAP_SCORE)
          ? CheckScore(request, model)
          : absl::UnimplementedError("the backend of model " + model.name() +
                                     " cannot score a text");
  if (!turn.ok()) {
    (*engine)->CountRefusal(turn.status());
    return turn.status();
  }
  return CheckedTurn{*std::move(engine), *std::move(turn)};
}

// What `where` is searched in must outlive the call, as the request does.
template <typename Reactor, typename Request, typename Where>
Reactor* NewReactor(grpc::CallbackServerContext* context, const Request& request,
                    const Where& where, TextThreads* threads, CallCount* calls) {
  const auto reactor = std::make_shared<Reactor>(
      calls, context, [context, &request, &where]() -> absl::StatusOr<CheckedTurn> {
        absl::StatusOr<CheckedTurn> turn = Check(request, where);
        if (turn.ok()) turn->request.deadline = DeadlineOf(*context);
        return turn;
      });
  reactor->Begin(request.input(), threads);
  return reactor.get();
}

}  // namespace

absl::StatusOr<SessionRoute> FindSession(const std::string& session_id,
                                         const SessionManager& sessions) {
  absl::StatusOr<SessionId> id = SessionId::Parse(session_id, "session_id");
  if (!id.ok()) return id.status();
  return sessions.Route(*id);
}

MonotonicTime DeadlineOf(const grpc::CallbackServerContext& context) {
  using WallClock = std::chrono::system_clock;
  const WallClock::time_point deadline = context.deadline();
  if (deadline == WallClock::time_point::max()) return MonotonicTime::InfiniteFuture();
  return MonotonicTime::Now() + absl::FromChrono(deadline - WallClock::now());
}

grpc::ServerWriteReactor<v1::GenerateResponse>* NewGenerateReactor(
    grpc::CallbackServerContext* context, const v1::GenerateRequest& request,
    const SessionManager* sessions, TextThreads* threads, CallCount* calls) {
  return NewReactor<GenerateReactor>(context, request, *sessions, threads, calls);
}

grpc::ServerWriteReactor<v1::ScoreResponse>* NewScoreReactor(grpc::CallbackServerContext* context,
                                                             const v1::ScoreRequest& request,
                                                             const ModelRegistry& models,
                                                             TextThreads* threads,
                                                             CallCount* calls) {
  return NewReactor<ScoreReactor>(context, request, models, threads, calls);
}

}  // namespace longstream
