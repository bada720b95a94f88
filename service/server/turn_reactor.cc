// Calls that stream the events of one turn. One message is in flight at a time.
#include "service/server/turn_reactor.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/interceptors/request_id.h"
#include "service/server/compare/live_twin.h"
#include "service/server/compare/twin_plan.h"
#include "service/server/compare/twin_stream.h"
#include "service/server/request_check.h"
#include "service/server/request_digest.h"
#include "service/server/routing/route_messages.h"
#include "service/server/to_proto.h"
#include "service/server/transport/grpc_status.h"
#include "service/server/turn_input.h"
#include "service/serving/turns/turn_pump.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

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

// The checks of a call read its request and these values.
struct CheckContext {
  std::string tenant;
  MonotonicTime deadline;  // of the call
  const SessionManager& sessions;
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
    self_ = this->shared_from_this();
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

  void OnWriteDone(bool ok) override {
    if (stream_ == nullptr) return EventWritten(ok);
    const auto self = shared_from_this();  // the call may end meanwhile
    if (!ok) OnCancel();
    if (stream_->Written()) EventWritten(ok);
    stream_->Look();
  }
  void OnCancel() override {
    TurnReactor::OnCancel();
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
    if (response->has_started()) {
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

  const std::function<CompareTools()> twin_tools_;
  std::shared_ptr<LiveTwin> twin_;      // set before the turn starts; nullptr: there is none
  std::unique_ptr<TwinStream> stream_;  // the same
  TurnEnd end_;                         // of the turn
  absl::Mutex mutex_;
  std::shared_ptr<LiveTwin> shared_twin_ ABSL_GUARDED_BY(mutex_);  // for OnCancel, at any time
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

// The time that the template saw when a lost turn started.
std::optional<std::tm> TimeOfLost(const NewTurn& turn) {
  const SessionTurns::Lost* lost = turn.lost();
  if (lost == nullptr || !lost->start.has_value() || !lost->start->messages.has_value()) {
    return std::nullopt;
  }
  return lost->start->messages->now;
}

// A lost turn goes on with the values that it started with, whatever the defaults are now.
void GoOnAs(const SessionTurns::Lost& lost, TurnRequest* request) {
  if (lost.start.has_value()) {
    request->sampling = lost.start->sampling;
    request->stop = lost.start->stop;
  }
  request->sampling.seed = lost.seed;
}

// Takes the lease, then encodes the input as the continuation of the history that the lease
// protects.
absl::Status LeaseAndRead(Decoded<v1::GenerateRequest>* decoded, NewTurn& turn,
                          TurnRequest* checked) {
  v1::GenerateRequest& request = *decoded->message;
  if (absl::Status status = turn.Lease(ExpectedPosition(request)); !status.ok()) return status;
  TurnInput input(turn.model(), turn.history(), request.parse_special());
  if (request.input().has_messages()) {
    return input.ReadMessages(request.mutable_input()->mutable_messages(), turn.history(),
                              turn.host_memory(), &decoded->charge, checked, turn.durable(),
                              TimeOfLost(turn));
  }
  absl::StatusOr<std::vector<int32_t>> prompt =
      input.Read(request.mutable_input(), &decoded->charge);
  if (!prompt.ok()) return prompt.status();
  checked->prompt = *std::move(prompt);
  return absl::OkStatus();
}

const char* NameOf(v1::Attach how) {
  switch (how) {
    case v1::ATTACH_ATTACHED:
      return "attached";
    case v1::ATTACH_FORCED:
      return "forced";
    default:
      return "restarted";
  }
}

// Finds the turn that the request names, or begins a new one. A repeated request comes with what
// the client has received.
absl::Status FindOrBegin(v1::GenerateRequest& request, CheckedTurn* checked) {
  const absl::StatusOr<std::optional<SessionId>> id = CheckTurnId(request);
  if (!id.ok()) return id.status();
  if (!id->has_value()) {
    checked->turn_id = checked->turn.Id(TurnKind::kGenerate);
    return absl::OkStatus();
  }
  absl::Status resume = CheckResume(request.resume(), checked->request,
                                    checked->turn.model().backend().info().vocabulary_size);
  if (!resume.ok()) return resume;
  const absl::StatusOr<NewTurn::How> how =
      checked->turn.Name(**id, TurnKind::kGenerate, DigestOf(&request));
  if (!how.ok()) return how.status();
  checked->turn_id = (*id)->ToString();
  checked->place.position = request.resume().position();
  const auto& ids = request.resume().token_ids();
  checked->place.tokens.assign(ids.begin(), ids.end());
  switch (*how) {
    case NewTurn::How::kAttached:
      checked->running = checked->turn.Running();
      checked->how = v1::ATTACH_ATTACHED;
      return absl::OkStatus();
    case NewTurn::How::kReplayed:
      checked->how = v1::ATTACH_REPLAYED;
      return absl::OkStatus();
    case NewTurn::How::kLost:
      GoOnAs(*checked->turn.lost(), &checked->request);
      checked->how = v1::ATTACH_RESTARTED;
      break;
    case NewTurn::How::kNew:
      break;
  }
  // The server may have forgotten a turn of which the client has tokens: they stand.
  if (!checked->place.tokens.empty()) {
    checked->how = v1::ATTACH_FORCED;
    checked->request.forced_tokens = checked->place.tokens;
  }
  return absl::OkStatus();
}

// FAILED_PRECONDITION: the position that the client names does not fit its tokens and the prompt.
absl::Status CheckPlace(const CheckedTurn& checked) {
  const TurnRequest& request = checked.request;
  const uint64_t start = request.kept_tokens.value_or(checked.turn.history().tokens.size());
  return TurnStream::CheckPosition(checked.place, start, request.prompt.size());
}

absl::StatusOr<CheckedTurn> Check(NewTurn new_turn, Decoded<v1::GenerateRequest>* decoded,
                                  const CheckContext& context) {
  v1::GenerateRequest& request = *decoded->message;
  CheckedTurn checked_turn(std::move(new_turn));
  NewTurn* const turn = &checked_turn.turn;
  const auto biases = static_cast<uint64_t>(request.sampling().logit_bias_size());
  if (absl::Status status = decoded->charge.Add(biases * kCheckedBiasBytes); !status.ok()) {
    return turn->Refuse(
        absl::Status(status.code(), absl::StrCat("sampling.logit_bias: ", status.message())));
  }
  absl::StatusOr<TurnRequest> checked = CheckGenerate(request, turn->model());
  if (!checked.ok()) return turn->Refuse(checked.status());
  checked->resume_window = context.sessions.resume_window();
  checked_turn.request = *std::move(checked);
  if (absl::Status status = FindOrBegin(request, &checked_turn); !status.ok()) {
    return turn->Refuse(status);
  }
  if (checked_turn.how == v1::ATTACH_REPLAYED) return checked_turn;
  if (checked_turn.how != v1::ATTACH_NEW) turn->CountResumed(NameOf(checked_turn.how));
  if (checked_turn.running) return checked_turn;
  absl::Status read = LeaseAndRead(decoded, *turn, &checked_turn.request);
  if (read.ok() && checked_turn.how == v1::ATTACH_FORCED) read = CheckPlace(checked_turn);
  if (!read.ok()) return turn->Refuse(read);
  if (request.twin_model().empty()) return checked_turn;
  absl::StatusOr<TwinPlan> twin =
      PlanTwin(context.tenant, request.twin_model(), *turn, checked_turn.request, context.sessions);
  if (!twin.ok()) return turn->Refuse(twin.status());
  twin->deadline = context.deadline;
  checked_turn.twin = *std::move(twin);
  return checked_turn;
}

absl::StatusOr<CheckedTurn> Check(NewTurn turn, Decoded<v1::ScoreRequest>* decoded,
                                  const CheckContext& /*context*/) {
  v1::ScoreRequest& request = *decoded->message;
  absl::StatusOr<TurnRequest> checked = CheckScore(request, turn.model());
  if (!checked.ok()) return turn.Refuse(checked.status());
  if (absl::Status status = turn.Lease(); !status.ok()) return turn.Refuse(status);
  absl::StatusOr<std::vector<int32_t>> prompt =
      TurnInput(turn.model(), turn.history(), request.parse_special())
          .Read(request.mutable_input(), &decoded->charge);
  if (!prompt.ok()) return turn.Refuse(prompt.status());
  if (prompt->empty()) {
    return turn.Refuse(absl::InvalidArgumentError("input: a score needs a text or token ids"));
  }
  checked->prompt = *std::move(prompt);
  CheckedTurn checked_turn(std::move(turn));
  checked_turn.request = *std::move(checked);
  return checked_turn;
}

using Loaded = std::function<void(absl::StatusOr<NewTurn>)>;

void LoadTurn(const std::string& tenant, const v1::GenerateRequest& request,
              SessionManager& sessions, Loaded loaded) {
  const absl::StatusOr<SessionId> session = SessionId::Parse(request.session_id(), "session_id");
  if (!session.ok()) return loaded(session.status());
  // The check of the request refuses a wrong turn id.
  const absl::StatusOr<std::optional<SessionId>> id = CheckTurnId(request);
  sessions.LoadTurn({tenant, *session}, id.value_or(std::nullopt), std::move(loaded));
}

void LoadTurn(const std::string& tenant, const v1::ScoreRequest& request, SessionManager& sessions,
              const Loaded& loaded) {
  loaded(sessions.ScoreWith(tenant, request.model(), AskFor(request.input(), /*max_tokens=*/1)));
}

// The sessions must outlive the call.
template <typename Reactor, typename Request, typename... Tools>
Reactor* NewReactor(grpc::CallbackServerContext* context, const Caller& caller,
                    Decoded<Request> request, SessionManager& sessions, TextThreads* threads,
                    CallCount* calls, Tools... tools) {
  // Shared, because std::function can only hold what can be copied.
  const auto held = std::make_shared<Decoded<Request>>(std::move(request));
  const size_t text_bytes = TextBytes(held->message->input());
  const uint64_t held_bytes = held->charge.bytes();
  const auto reactor = std::make_shared<Reactor>(
      calls, context, &sessions,
      [context, held, &sessions,
       tenant = caller.tenant](NewTurn new_turn) -> absl::StatusOr<CheckedTurn> {
        const CheckContext with{tenant, DeadlineFrom(context->raw_deadline()), sessions};
        absl::StatusOr<CheckedTurn> turn = Check(std::move(new_turn), held.get(), with);
        if (!turn.ok()) return turn;
        // The deadline of a call does not end a turn that outlives it.
        if (!turn->request.outlives_reader) turn->request.deadline = with.deadline;
        turn->request.request_id = RequestIdOf(*context);
        if (turn->twin.has_value()) turn->twin->request.request_id = turn->request.request_id;
        return turn;
      },
      std::move(tools)...);
  LoadTurn(caller.tenant, *held->message, sessions,
           [reactor, text_bytes, held_bytes, threads](absl::StatusOr<NewTurn> turn) {
             reactor->Begin(std::move(turn), text_bytes, held_bytes, threads);
           });
  return reactor.get();
}

}  // namespace

MonotonicTime DeadlineFrom(const gpr_timespec& deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
    return MonotonicTime::InfiniteFuture();
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return MonotonicTime::Now() + absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* NewGenerateReactor(
    grpc::CallbackServerContext* context, const Caller& caller,
    Decoded<v1::GenerateRequest> request, SessionManager* sessions, TextThreads* threads,
    CallCount* calls, std::function<CompareTools()> twin_tools) {
  return NewReactor<GenerateReactor>(context, caller, std::move(request), *sessions, threads, calls,
                                     std::move(twin_tools));
}

grpc::ServerWriteReactor<v1::ScoreResponse>* NewScoreReactor(
    grpc::CallbackServerContext* context, const Caller& caller, Decoded<v1::ScoreRequest> request,
    SessionManager* sessions, TextThreads* threads, CallCount* calls) {
  return NewReactor<ScoreReactor>(context, caller, std::move(request), *sessions, threads, calls);
}

}  // namespace longstream
