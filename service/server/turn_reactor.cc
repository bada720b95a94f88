// From a turn's event queue to a gRPC stream, one message in flight at a time.
#include "service/server/turn_reactor.h"

#include <memory>
#include <string>
#include <utility>

#include "service/server/grpc_status.h"
#include "service/server/request_check.h"
#include "service/server/to_proto.h"

namespace longstream {
namespace {

// At any moment one of two things will call Pump next: the message in flight when it is written, or
// the turn's stream when it has more (SetReader). So Pump never runs twice at once and needs no
// lock. The reactor lives until OnDone through `self_`, and a wake that is under way holds it too.
template <typename Response>
class TurnReactor : public grpc::ServerWriteReactor<Response>,
                    public std::enable_shared_from_this<TurnReactor<Response>> {
 public:
  TurnReactor(CallCount* calls, std::shared_ptr<Engine> engine, TurnRequest request)
      : call_(calls),
        engine_(std::move(engine)),
        turn_(std::make_shared<Turn>(std::move(request))) {}

  void Begin() {
    self_ = this->shared_from_this();
    turn_->stream.SetReader([self = self_] { self->Pump(); });
    const absl::Status status = engine_->Start(turn_);
    if (!status.ok()) this->Finish(ToGrpc(status));
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      if (position_ > 0) turn_->stream.Delivered(position_);
    } else {
      Cancel();
    }
    Pump();
  }

  void OnCancel() override { Cancel(); }

  void OnDone() override {
    turn_->stream.SetReader(nullptr);
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
  const std::shared_ptr<Engine> engine_;  // shared: it must outlive the turn
  const std::shared_ptr<Turn> turn_;      // shared with the engine
  std::shared_ptr<TurnReactor> self_;     // until OnDone
  Response response_;                     // of the message in flight
  uint64_t position_ = 0;                 // that its delta reaches
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

// A call that ends before it has begun.
template <typename Response>
class RefusedReactor final : public grpc::ServerWriteReactor<Response> {
 public:
  RefusedReactor(CallCount* calls, const absl::Status& status) : call_(calls) {
    this->Finish(ToGrpc(status));
  }
  void OnDone() override { delete this; }

 private:
  const CallCount::Call call_;
};

}  // namespace

absl::StatusOr<SessionRoute> FindSession(const std::string& session_id,
                                         const Dispatcher& dispatcher) {
  absl::StatusOr<SessionId> id = SessionId::Parse(session_id, "session_id");
  if (!id.ok()) return id.status();
  return dispatcher.Route(*id);
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  return absl::FromChrono(context.deadline());
}

grpc::ServerWriteReactor<v1::GenerateResponse>* NewGenerateReactor(
    grpc::CallbackServerContext* context, const v1::GenerateRequest& request,
    const Dispatcher* dispatcher, CallCount* calls) {
  using Refused = RefusedReactor<v1::GenerateResponse>;
  absl::StatusOr<SessionRoute> route = FindSession(request.session_id(), *dispatcher);
  if (!route.ok()) return new Refused(calls, route.status());
  absl::StatusOr<TurnRequest> turn =
      CheckGenerate(request, route->engine->model(), std::move(route->session));
  if (!turn.ok()) {
    route->engine->CountRefusal(turn.status());
    return new Refused(calls, turn.status());
  }
  turn->deadline = DeadlineOf(*context);
  auto reactor =
      std::make_shared<GenerateReactor>(calls, std::move(route->engine), *std::move(turn));
  reactor->Begin();
  return reactor.get();
}

grpc::ServerWriteReactor<v1::ScoreResponse>* NewScoreReactor(grpc::CallbackServerContext* context,
                                                             const v1::ScoreRequest& request,
                                                             const ModelSet& models,
                                                             CallCount* calls) {
  using Refused = RefusedReactor<v1::ScoreResponse>;
  absl::StatusOr<std::shared_ptr<Engine>> engine = models.Find(request.model());
  if (!engine.ok()) return new Refused(calls, engine.status());
  const ServedModel& model = (*engine)->model();
  absl::StatusOr<TurnRequest> turn =
      model.backend().plugin().Can(LS_CAP_SCORE)
          ? CheckScore(request, model)
          : absl::UnimplementedError("the backend of model " + model.name() +
                                     " cannot score a text");
  if (!turn.ok()) {
    (*engine)->CountRefusal(turn.status());
    return new Refused(calls, turn.status());
  }
  turn->deadline = DeadlineOf(*context);
  auto reactor = std::make_shared<ScoreReactor>(calls, *std::move(engine), *std::move(turn));
  reactor->Begin();
  return reactor.get();
}

}  // namespace longstream
