// Calls that stream the events of one turn. One message is in flight at a time.
#include "service/server/turn_reactor.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/server/request_check.h"
#include "service/server/to_proto.h"
#include "service/server/transport/grpc_status.h"
#include "service/server/turn_input.h"
#include "service/server/turn_pump.h"

namespace longstream {
namespace {

// A turn that holds its session's lease, and its checked request.
struct CheckedTurn {
  NewTurn turn;
  TurnRequest request;
};

// A call that runs one turn. `self_` keeps the reactor alive until OnDone. Pending work keeps it
// alive too.
template <typename Response>
class TurnReactor : public grpc::ServerWriteReactor<Response>,
                    public TurnPump::Sink,
                    public std::enable_shared_from_this<TurnReactor<Response>> {
 public:
  // Checks the request and takes the lease. Called once. Holds the request, and frees it when it is
  // destroyed.
  using Check = std::function<absl::StatusOr<CheckedTurn>()>;

  TurnReactor(CallCount* calls, const grpc::CallbackServerContext* context, Check check)
      : call_(calls), context_(context), check_(std::move(check)) {}

  // `text_bytes`, `held_bytes`: as for TextThreads::Run.
  void Begin(size_t text_bytes, uint64_t held_bytes, TextThreads* threads) {
    self_ = this->shared_from_this();
    const absl::Status taken =
        threads->Run(text_bytes, held_bytes, [self = self_] { self->Start(); });
    if (!taken.ok()) this->Finish(ToGrpc(taken));
  }

  void OnWriteDone(bool ok) override { pump_.Written(ok); }
  void OnCancel() override { pump_.Cancel(absl::CancelledError("the caller cancelled the turn")); }
  void OnDone() override { self_.reset(); }

 protected:
  const TurnRequest& request() const { return pump_.turn().request(); }
  const ServedModel& model() const { return pump_.turn().model(); }

  // Writes the message for an event. Returns false if the event needs no message.
  virtual bool Translate(const TurnEvent& event, Response* response) = 0;
  // Writes the last message of a turn that ended with OK.
  virtual void TranslateEnd(const TurnEnd& end, Response* response) = 0;

 private:
  void Start() {
    // The caller may have cancelled the call while its text waited for this thread.
    const Check check = std::exchange(check_, nullptr);
    absl::StatusOr<CheckedTurn> checked =
        context_->IsCancelled() ? absl::CancelledError("the caller cancelled the call") : check();
    if (!checked.ok()) return this->Finish(ToGrpc(checked.status()));
    const absl::Status status =
        pump_.Start(std::move(checked->turn), std::move(checked->request), self_);
    if (!status.ok()) this->Finish(ToGrpc(status));
  }

  bool OnEvent(const TurnEvent& event) override {
    response_.Clear();
    if (!Translate(event, &response_)) return false;
    this->StartWrite(&response_);
    return true;
  }

  void OnEnd(const TurnEnd& end) override {
    if (!end.status.ok()) return this->Finish(ToGrpc(end.status));
    response_.Clear();
    TranslateEnd(end, &response_);
    this->StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  const CallCount::Call call_;
  const grpc::CallbackServerContext* const context_;
  Check check_;
  TurnPump pump_{this};
  Response response_;                  // the message in flight
  std::shared_ptr<TurnReactor> self_;  // keeps this object alive until OnDone
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
    *response->mutable_summary() = summary_;
  }

 private:
  v1::ScoreSummary summary_;
};

// Takes the lease, then encodes the input as the continuation of the history that the lease
// protects.
absl::Status LeaseAndRead(Decoded<v1::GenerateRequest>* decoded, NewTurn& turn,
                          TurnRequest* checked) {
  v1::GenerateRequest& request = *decoded->message;
  if (absl::Status status = turn.Lease(ExpectedPosition(request)); !status.ok()) return status;
  TurnInput input(turn.model(), turn.history(), request.parse_special());
  if (request.input().has_messages()) {
    return input.ReadMessages(request.mutable_input()->mutable_messages(), turn.history(),
                              turn.host_memory(), &decoded->charge, checked);
  }
  absl::StatusOr<std::vector<int32_t>> prompt =
      input.Read(request.mutable_input(), &decoded->charge);
  if (!prompt.ok()) return prompt.status();
  checked->prompt = *std::move(prompt);
  return absl::OkStatus();
}

absl::StatusOr<CheckedTurn> Check(Decoded<v1::GenerateRequest>* decoded,
                                  const SessionManager& sessions) {
  const v1::GenerateRequest& request = *decoded->message;
  absl::StatusOr<NewTurn> turn = FindTurn(request.session_id(), sessions);
  if (!turn.ok()) return turn.status();
  const auto biases = static_cast<uint64_t>(request.sampling().logit_bias_size());
  if (absl::Status status = decoded->charge.Add(biases * kCheckedBiasBytes); !status.ok()) {
    return turn->Refuse(
        absl::Status(status.code(), absl::StrCat("sampling.logit_bias: ", status.message())));
  }
  absl::StatusOr<TurnRequest> checked = CheckGenerate(request, turn->model());
  if (!checked.ok()) return turn->Refuse(checked.status());
  const absl::Status read = LeaseAndRead(decoded, *turn, &*checked);
  if (!read.ok()) return turn->Refuse(read);
  return CheckedTurn{*std::move(turn), *std::move(checked)};
}

absl::StatusOr<CheckedTurn> Check(Decoded<v1::ScoreRequest>* decoded,
                                  const SessionManager& sessions) {
  v1::ScoreRequest& request = *decoded->message;
  absl::StatusOr<NewTurn> turn = sessions.ScoreWith(request.model());
  if (!turn.ok()) return turn.status();
  absl::StatusOr<TurnRequest> checked = CheckScore(request, turn->model());
  if (!checked.ok()) return turn->Refuse(checked.status());
  if (absl::Status status = turn->Lease(); !status.ok()) return turn->Refuse(status);
  absl::StatusOr<std::vector<int32_t>> prompt =
      TurnInput(turn->model(), turn->history(), request.parse_special())
          .Read(request.mutable_input(), &decoded->charge);
  if (!prompt.ok()) return turn->Refuse(prompt.status());
  if (prompt->empty()) {
    return turn->Refuse(absl::InvalidArgumentError("input: a score needs a text or token ids"));
  }
  checked->prompt = *std::move(prompt);
  return CheckedTurn{*std::move(turn), *std::move(checked)};
}

// The sessions must outlive the call.
template <typename Reactor, typename Request>
Reactor* NewReactor(grpc::CallbackServerContext* context, Decoded<Request> request,
                    const SessionManager& sessions, TextThreads* threads, CallCount* calls) {
  // Shared, because std::function can only hold what can be copied.
  const auto held = std::make_shared<Decoded<Request>>(std::move(request));
  const size_t text_bytes = TextBytes(held->message->input());
  const uint64_t held_bytes = held->charge.bytes();
  const auto reactor = std::make_shared<Reactor>(
      calls, context, [context, held, &sessions]() -> absl::StatusOr<CheckedTurn> {
        absl::StatusOr<CheckedTurn> turn = Check(held.get(), sessions);
        if (turn.ok()) turn->request.deadline = DeadlineFrom(context->raw_deadline());
        return turn;
      });
  reactor->Begin(text_bytes, held_bytes, threads);
  return reactor.get();
}

}  // namespace

absl::StatusOr<NewTurn> FindTurn(const std::string& session_id, const SessionManager& sessions) {
  absl::StatusOr<SessionId> id = SessionId::Parse(session_id, "session_id");
  if (!id.ok()) return id.status();
  return sessions.TurnOf(*id);
}

MonotonicTime DeadlineFrom(const gpr_timespec& deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
    return MonotonicTime::InfiniteFuture();
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return MonotonicTime::Now() + absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* NewGenerateReactor(
    grpc::CallbackServerContext* context, Decoded<v1::GenerateRequest> request,
    const SessionManager* sessions, TextThreads* threads, CallCount* calls) {
  return NewReactor<GenerateReactor>(context, std::move(request), *sessions, threads, calls);
}

grpc::ServerWriteReactor<v1::ScoreResponse>* NewScoreReactor(grpc::CallbackServerContext* context,
                                                             Decoded<v1::ScoreRequest> request,
                                                             const SessionManager* sessions,
                                                             TextThreads* threads,
                                                             CallCount* calls) {
  return NewReactor<ScoreReactor>(context, std::move(request), *sessions, threads, calls);
}

}  // namespace longstream
