// Checks the requests of calls that stream the events of one turn, and begins them.
#include "service/server/turn_reactor.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/interceptors/request_id.h"
#include "service/server/formats/format_check.h"
#include "service/server/request_check.h"
#include "service/server/request_digest.h"
#include "service/server/routing/route_messages.h"
#include "service/server/turn_input.h"
#include "service/server/turn_reactors.h"
#include "service/serving/fleet_calls.h"

namespace longstream {
namespace {

// The checks of a call read its request and these values.
struct CheckContext {
  std::string tenant;
  MonotonicTime deadline;  // of the call
  const SessionManager& sessions;
};

// Takes the lease, then encodes the input as the continuation of the history that the lease
// protects.
absl::Status LeaseAndRead(Decoded<v1::GenerateRequest>* decoded, NewTurn& turn,
                          TurnRequest* checked) {
  v1::GenerateRequest& request = *decoded->message;
  if (absl::Status status = turn.Lease(ExpectedPosition(request)); !status.ok()) return status;
  TurnInput input(turn.model(), turn.history(), request.parse_special());
  if (request.input().has_messages()) {
    return input.ReadMessages(
        request.mutable_input()->mutable_messages(), turn.history(), turn.host_memory(),
        &decoded->charge, checked, turn.durable(),
        turn.lost() == nullptr ? std::nullopt : turn.lost()->TimeOfMessages());
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
      checked->turn.lost()->GoOnAs(&checked->request);
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
  if (read.ok() && request.has_response_format()) {
    read = SetFormat(request.response_format(), turn->model(), &checked_turn.request);
  }
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

// The size of the request's texts for TextThreads. A format may be large, and is compiled.
size_t TextBytesOf(const v1::GenerateRequest& request) {
  return request.has_response_format() ? std::numeric_limits<size_t>::max()
                                       : TextBytes(request.input());
}
size_t TextBytesOf(const v1::ScoreRequest& request) { return TextBytes(request.input()); }

using Loaded = std::function<void(absl::StatusOr<NewTurn>)>;

// Finds the session's turn that the request names.
void LoadTurn(const std::string& tenant, const std::shared_ptr<GenerateReactor>& reactor,
              const v1::GenerateRequest& request, SessionManager* sessions, Relays* relays,
              Loaded loaded) {
  const absl::StatusOr<SessionId> session = SessionId::Parse(request.session_id(), "session_id");
  if (!session.ok()) return loaded(session.status());
  const SessionKey key{tenant, *session};
  // The check of the request refuses a wrong turn id.
  const std::optional<SessionId> id = CheckTurnId(request).value_or(std::nullopt);
  if (relays == nullptr || !id.has_value()) return sessions->LoadTurn(key, id, std::move(loaded));
  // The reactor keeps the request.
  const auto relay = [=, &request, id = *id](const fleet::Entry& entry) {
    const auto ended = [sessions, number = entry.relay](const absl::Status& status) {
      sessions->fleet()->RelayEnded(number, status);
    };
    reactor->Relay(*relays, {entry.peer.name, key, id, request.SerializeAsString(), {}, {}}, ended);
  };
  sessions->LoadTurn(key, id, std::move(loaded), relay);
}

// The sessions must outlive the call. `load`: finds the turn of the request for the reactor.
template <typename Reactor, typename Request, typename Load, typename... Tools>
Reactor* NewReactor(grpc::CallbackServerContext* context, const Caller& caller,
                    Decoded<Request> request, SessionManager& sessions, TextThreads* threads,
                    CallCount* calls, const Load& load, Tools... tools) {
  // Shared, because std::function can only hold what can be copied.
  const auto held = std::make_shared<Decoded<Request>>(std::move(request));
  const size_t text_bytes = TextBytesOf(*held->message);
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
  load(reactor, *held->message,
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
    CallCount* calls, std::function<CompareTools()> twin_tools, Relays* relays) {
  const auto load = [tenant = caller.tenant, sessions, relays](
                        const std::shared_ptr<GenerateReactor>& reactor,
                        const v1::GenerateRequest& message, Loaded loaded) {
    LoadTurn(tenant, reactor, message, sessions, relays, std::move(loaded));
  };
  return NewReactor<GenerateReactor>(context, caller, std::move(request), *sessions, threads, calls,
                                     load, std::move(twin_tools));
}

grpc::ServerWriteReactor<v1::GenerateResponse>* NewAttachReactor(
    grpc::CallbackServerContext* context, AttachCall call, SessionManager* sessions,
    TextThreads* threads, CallCount* calls) {
  call.request.message->clear_twin_model();  // it began with the turn, or never will
  Caller caller;
  caller.tenant = call.session.tenant;
  const auto load = [&call, sessions](const std::shared_ptr<GenerateReactor>& /*reactor*/,
                                      const v1::GenerateRequest& /*message*/, Loaded loaded) {
    sessions->fleet()->AttachRunning(call.session, call.turn, std::move(loaded));
  };
  return NewReactor<GenerateReactor>(context, caller, std::move(call.request), *sessions, threads,
                                     calls, load,
                                     [counted = call.counted] { return CompareTools(); });
}

grpc::ServerWriteReactor<v1::ScoreResponse>* NewScoreReactor(
    grpc::CallbackServerContext* context, const Caller& caller, Decoded<v1::ScoreRequest> request,
    SessionManager* sessions, TextThreads* threads, CallCount* calls) {
  const auto load = [tenant = caller.tenant, sessions](
                        const std::shared_ptr<ScoreReactor>& /*reactor*/,
                        const v1::ScoreRequest& message, const Loaded& loaded) {
    const RouteAsk ask = AskFor(message.input(), /*max_tokens=*/1);
    loaded(sessions->ScoreWith(tenant, message.model(), ask));
  };
  return NewReactor<ScoreReactor>(context, caller, std::move(request), *sessions, threads, calls,
                                  load);
}

}  // namespace longstream
