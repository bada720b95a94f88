// Implements the unary calls. The streaming calls have their own reactors.
#include "service/server/service_impl.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/config/names.h"
#include "service/fleet/session_owner.h"
#include "service/interceptors/request_id.h"
#include "service/server/append_reactor.h"
#include "service/server/compare/compare_call.h"
#include "service/server/compare_check.h"
#include "service/server/history/history_calls.h"
#include "service/server/notes/note_calls.h"
#include "service/server/request_check.h"
#include "service/server/routing/route_messages.h"
#include "service/server/to_proto.h"
#include "service/server/token_calls.h"
#include "service/server/transfer/export_reactor.h"
#include "service/server/transfer/import_reactor.h"
#include "service/server/transport/grpc_status.h"
#include "service/server/transport/late_answer.h"
#include "service/server/turn_reactor.h"

namespace longstream {
namespace {

// The reactor of a unary call, which is counted until gRPC is done with it.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryReactor(CallCount* calls) : call_(calls) {}
  void OnDone() override { delete this; }

 private:
  const CallCount::Call call_;
};

grpc::ServerUnaryReactor* Finish(CallCount* calls, const absl::Status& status) {
  auto* reactor = new UnaryReactor(calls);
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// INVALID_ARGUMENT: the name, which must be that of a model, is an alias.
absl::Status CheckNoAlias(const char* field, const std::string& name, const AliasTable& aliases) {
  const std::optional<AliasConfig> alias = aliases.Find(name);
  if (!alias.has_value()) return absl::OkStatus();
  std::vector<std::string> models;
  for (const AliasArm& arm : alias->arms) models.push_back(arm.model);
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", name,
                                                 " is an alias; expected a model, such as ",
                                                 absl::StrJoin(models, " or ")));
}

// The place that a ForkSession or a RewindSession names.
template <typename Request>
absl::StatusOr<Place> ReadPlace(const Request& request) {
  Place place;
  if (request.has_position()) place.position = request.position();
  if (!request.has_turn_id()) return place;
  const absl::StatusOr<SessionId> turn = SessionId::Parse(request.turn_id(), "turn_id");
  if (!turn.ok()) return turn.status();
  place.turn = *turn;
  return place;
}

// Returns a callback that answers a call with the new session. `is_drawn`: the server drew the
// session's id. If the caller has gone by then, no client knows the drawn id and could close the
// session. Therefore the callback closes it.
SessionManager::Opened AnswerWith(grpc::ServerUnaryReactor* reactor,
                                  const grpc::CallbackServerContext* context, const Caller& caller,
                                  bool is_drawn, SessionManager* sessions, v1::Session* response) {
  return [=, tenant = caller.tenant](const absl::StatusOr<SessionView>& view) {
    if (view.ok() && is_drawn && context->IsCancelled()) {
      sessions->CloseSession({tenant, view->id}, [](const absl::StatusOr<uint64_t>&) {});
      return reactor->Finish(ToGrpc(absl::CancelledError("the caller cancelled the call")));
    }
    if (view.ok()) ToProto(*view, response);
    reactor->Finish(ToGrpc(view.status()));
  };
}

absl::StatusOr<SessionImport::Wanted> CheckImportRequest(const v1::ImportSessionRequest& request) {
  SessionImport::Wanted wanted;
  const auto id = CheckSessionId(request.session_id(), "session_id");
  if (!id.ok()) return id.status();
  wanted.id = *id;
  wanted.model = request.model();
  const auto timeout =
      CheckDuration("idle_timeout", request.has_idle_timeout(), request.idle_timeout());
  if (!timeout.ok()) return timeout.status();
  wanted.idle_timeout = *timeout;
  return wanted;
}

}  // namespace

ServiceImpl::ServiceImpl(const ModelRegistry* models, SessionManager* sessions,
                         uint64_t max_request_bytes, Authorize authorize,
                         const CompareLimits& compare_limits, Relays* relays)
    : DecodingService(&request_memory_, std::move(authorize)),
      compare_limits_(compare_limits),
      models_(models),
      sessions_(sessions),
      relays_(relays),
      request_memory_(max_request_bytes, [sessions] { sessions->NoteFreedMemory(); }),
      compare_threads_(kCompareThreads, std::numeric_limits<uint64_t>::max()),
      text_threads_(kTextThreads, max_request_bytes) {
  AddUnary("/longstream.v1.Longstream/OpenSession", &ServiceImpl::OpenSession);
  AddClientStream("/longstream.v1.Longstream/Append", &ServiceImpl::Append);
  AddServerStream("/longstream.v1.Longstream/Generate", &ServiceImpl::Generate);
  AddUnary("/longstream.v1.Longstream/GetSession", &ServiceImpl::GetSession);
  AddUnary("/longstream.v1.Longstream/ListSessions", &ServiceImpl::ListSessions);
  AddUnary("/longstream.v1.Longstream/ForkSession", &ServiceImpl::ForkSession);
  AddUnary("/longstream.v1.Longstream/RewindSession", &ServiceImpl::RewindSession);
  AddUnary("/longstream.v1.Longstream/CloseSession", &ServiceImpl::CloseSession);
  AddUnary("/longstream.v1.Longstream/CancelTurn", &ServiceImpl::CancelTurn);
  AddUnary("/longstream.v1.Longstream/ListTurns", &ServiceImpl::ListTurns);
  AddUnary("/longstream.v1.Longstream/ReadHistory", &ServiceImpl::ReadHistory);
  AddServerStream("/longstream.v1.Longstream/ExportSession", &ServiceImpl::ExportSession);
  AddClientStream("/longstream.v1.Longstream/ImportSession", &ServiceImpl::ImportSession);
  AddUnary("/longstream.v1.Longstream/PutNotes", &ServiceImpl::PutNotes);
  AddUnary("/longstream.v1.Longstream/FindNotes", &ServiceImpl::FindNotes);
  AddServerStream("/longstream.v1.Longstream/Score", &ServiceImpl::Score);
  AddUnary("/longstream.v1.Longstream/Tokenize", &ServiceImpl::Tokenize);
  AddUnary("/longstream.v1.Longstream/Detokenize", &ServiceImpl::Detokenize);
  AddServerStream("/longstream.v1.Longstream/Compare", &ServiceImpl::Compare);
  AddUnary("/longstream.v1.Longstream/ListModels", &ServiceImpl::ListModels);
  AddUnary("/longstream.v1.Longstream/GetModel", &ServiceImpl::GetModel);
}

grpc::ServerUnaryReactor* ServiceImpl::OpenSession(grpc::CallbackServerContext* context,
                                                   const Caller& caller,
                                                   const v1::OpenSessionRequest& request,
                                                   v1::Session* response) {
  const auto id = CheckSessionId(request.session_id(), "session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  const auto timeout =
      CheckDuration("idle_timeout", request.has_idle_timeout(), request.idle_timeout());
  if (!timeout.ok()) return Finish(&calls_, timeout.status());
  const auto recompute = CheckRecompute(request.recompute());
  if (!recompute.ok()) return Finish(&calls_, recompute.status());
  const auto durability = CheckDurability(request.durability());
  if (!durability.ok()) return Finish(&calls_, durability.status());
  const absl::StatusOr<RouteAsk> ask = CheckExpectation(request.expect());
  if (!ask.ok()) return Finish(&calls_, ask.status());
  const auto ttl = CheckDuration("ttl", request.has_ttl(), request.ttl());
  if (!ttl.ok()) return Finish(&calls_, ttl.status());
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->OpenSession(
      caller.tenant, request.model(), *id, *timeout,
      AnswerWith(reactor, context, caller, !id->has_value(), sessions_, response),
      {.recompute = *recompute, .durability = *durability, .ask = *ask, .ttl = *ttl});
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::ForkSession(grpc::CallbackServerContext* context,
                                                   const Caller& caller,
                                                   const v1::ForkSessionRequest& request,
                                                   v1::Session* response) {
  const auto source = SessionId::Parse(request.session_id(), "session_id");
  if (!source.ok()) return Finish(&calls_, source.status());
  const auto id = CheckSessionId(request.new_session_id(), "new_session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  const auto timeout =
      CheckDuration("idle_timeout", request.has_idle_timeout(), request.idle_timeout());
  if (!timeout.ok()) return Finish(&calls_, timeout.status());
  const absl::StatusOr<Place> place = ReadPlace(request);
  if (!place.ok()) return Finish(&calls_, place.status());
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->ForkSession(
      {caller.tenant, *source}, *id, *timeout,
      AnswerWith(reactor, context, caller, !id->has_value(), sessions_, response), *place,
      request.model());
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::RewindSession(grpc::CallbackServerContext* context,
                                                     const Caller& caller,
                                                     const v1::RewindSessionRequest& request,
                                                     v1::Session* response) {
  const auto id = SessionId::Parse(request.session_id(), "session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  const absl::StatusOr<Place> place = ReadPlace(request);
  if (!place.ok()) return Finish(&calls_, place.status());
  if (!place->given()) {
    return Finish(&calls_, absl::InvalidArgumentError("at: expected a turn_id or a position"));
  }
  std::optional<uint64_t> version;
  if (request.expected_version() != 0) version = request.expected_version();
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->RewindSession(
      {caller.tenant, *id}, *place, version,
      AnswerWith(reactor, context, caller, /*is_drawn=*/false, sessions_, response));
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::CloseSession(grpc::CallbackServerContext* /*context*/,
                                                    const Caller& caller,
                                                    const v1::CloseSessionRequest& request,
                                                    v1::CloseSessionResponse* response) {
  const auto id = SessionId::Parse(request.session_id(), "session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->CloseSession({caller.tenant, *id},
                          [reactor, response](const absl::StatusOr<uint64_t>& position) {
                            if (position.ok()) response->set_position(*position);
                            reactor->Finish(ToGrpc(position.status()));
                          });
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::CancelTurn(grpc::CallbackServerContext* /*context*/,
                                                  const Caller& caller,
                                                  const v1::CancelTurnRequest& request,
                                                  v1::Turn* response) {
  const auto session = SessionId::Parse(request.session_id(), "session_id");
  if (!session.ok()) return Finish(&calls_, session.status());
  const auto id = SessionId::Parse(request.turn_id(), "turn_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  const SessionKey key{caller.tenant, *session};
  const auto call =
      LateAnswer<v1::Turn>::Make(std::make_shared<CallCount::Call>(&calls_), response);
  // The answer may come after the end of this service.
  const auto answer = [call, key, id = *id,
                       relays = relays_](const absl::StatusOr<TurnView>& turn) {
    const std::optional<fleet::SessionOwner> owner =
        absl::IsAborted(turn.status()) ? fleet::OwnerOf(turn.status()) : std::nullopt;
    if (owner.has_value() && relays != nullptr) {
      return relays->CancelTurn(
          owner->name, key, id,
          [call](const absl::StatusOr<v1::Turn>& cancelled) { call->Answer(cancelled); });
    }
    if (!turn.ok()) return call->Answer(turn.status());
    v1::Turn message;
    ToProto(*turn, &message);
    call->Answer(message);
  };
  sessions_->CancelTurn(key, *id, answer);
  return call.get();
}

grpc::ServerUnaryReactor* ServiceImpl::ListTurns(grpc::CallbackServerContext* /*context*/,
                                                 const Caller& caller,
                                                 const v1::ListTurnsRequest& request,
                                                 v1::ListTurnsResponse* response) {
  const auto session = SessionId::Parse(request.session_id(), "session_id");
  if (!session.ok()) return Finish(&calls_, session.status());
  const absl::StatusOr<size_t> limit = CheckPageSize(request.page_size());
  if (!limit.ok()) return Finish(&calls_, limit.status());
  const absl::StatusOr<uint64_t> begin = CheckTurnsToken(request.page_token());
  if (!begin.ok()) return Finish(&calls_, begin.status());
  using Turns = std::vector<TurnView>;
  const auto next = std::make_shared<uint64_t>(0);
  const auto read = [this, key = SessionKey{caller.tenant, *session}, begin = *begin,
                     limit = *limit,
                     next] { return sessions_->ListTurns(key, begin, limit, next.get()); };
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->Read<Turns>({caller.tenant, *session}, read,
                         [reactor, response, next](const absl::StatusOr<Turns>& turns) {
                           if (turns.ok()) {
                             for (const TurnView& turn : *turns)
                               ToProto(turn, response->add_turns());
                             if (*next != 0) response->set_next_page_token(std::to_string(*next));
                           }
                           reactor->Finish(ToGrpc(turns.status()));
                         });
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::ReadHistory(grpc::CallbackServerContext* /*context*/,
                                                   const Caller& caller,
                                                   const v1::ReadHistoryRequest& request,
                                                   v1::ReadHistoryResponse* response) {
  return NewReadHistoryCall({sessions_, &request_memory_, &calls_}, caller.tenant, request,
                            response);
}

grpc::ServerUnaryReactor* ServiceImpl::GetSession(grpc::CallbackServerContext* /*context*/,
                                                  const Caller& caller,
                                                  const v1::GetSessionRequest& request,
                                                  v1::Session* response) {
  const auto id = SessionId::Parse(request.session_id(), "session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->ShowSession({caller.tenant, *id},
                         [reactor, response](const absl::StatusOr<SessionView>& session) {
                           if (session.ok()) ToProto(*session, response);
                           reactor->Finish(ToGrpc(session.status()));
                         });
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::ListSessions(grpc::CallbackServerContext* /*context*/,
                                                    const Caller& caller,
                                                    const v1::ListSessionsRequest& request,
                                                    v1::ListSessionsResponse* response) {
  const absl::StatusOr<size_t> limit = CheckPageSize(request.page_size());
  if (!limit.ok()) return Finish(&calls_, limit.status());
  const auto after = CheckSessionId(request.page_token(), "page_token");
  if (!after.ok()) return Finish(&calls_, after.status());
  if (!request.model().empty()) {
    if (absl::Status status = CheckNoAlias("model", request.model(), sessions_->aliases());
        !status.ok()) {
      return Finish(&calls_, status);
    }
    const auto model = models_->Status(request.model());
    if (!model.ok()) return Finish(&calls_, model.status());
  }
  SessionFilter filter{request.model(), request.alias()};
  if (!filter.alias.empty()) {
    if (absl::Status status = CheckName("alias", filter.alias); !status.ok()) {
      return Finish(&calls_, status);
    }
  }
  const auto read = [this, tenant = caller.tenant, after = *after, limit = *limit,
                     filter = std::move(filter)]() -> absl::StatusOr<SessionPage> {
    SessionPage page = sessions_->List(tenant, after, limit, filter);
    if (!page.status.ok()) return page.status;
    return page;
  };
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->Read<SessionPage>({caller.tenant}, read,
                               [reactor, response](const absl::StatusOr<SessionPage>& page) {
                                 if (page.ok()) {
                                   for (const SessionView& session : page->sessions) {
                                     ToProto(session, response->add_sessions());
                                   }
                                   if (page->next.has_value())
                                     response->set_next_page_token(page->next->ToString());
                                 }
                                 reactor->Finish(ToGrpc(page.status()));
                               });
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::ListModels(grpc::CallbackServerContext* /*context*/,
                                                  const Caller& /*caller*/,
                                                  const v1::ListModelsRequest& /*request*/,
                                                  v1::ListModelsResponse* response) {
  for (const ModelStatus& status : models_->List()) ToProto(status, response->add_models());
  for (const AliasConfig& alias : sessions_->aliases().List()) {
    ToProto(alias, response->add_aliases());
  }
  return Finish(&calls_, absl::OkStatus());
}

grpc::ServerUnaryReactor* ServiceImpl::GetModel(grpc::CallbackServerContext* /*context*/,
                                                const Caller& /*caller*/,
                                                const v1::GetModelRequest& request,
                                                v1::Model* response) {
  if (absl::Status status = CheckNoAlias("name", request.name(), sessions_->aliases());
      !status.ok()) {
    return Finish(&calls_, status);
  }
  const auto status = models_->Status(request.name());
  if (status.ok()) ToProto(*status, response);
  return Finish(&calls_, status.status());
}

grpc::ServerReadReactor<RawRequest<v1::AppendRequest>>* ServiceImpl::Append(
    grpc::CallbackServerContext* context, const Caller& caller, v1::AppendResponse* response) {
  return NewAppendReactor(context, caller, response, sessions_, &text_threads_, &request_memory_,
                          &calls_);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* ServiceImpl::Generate(
    grpc::CallbackServerContext* context, const Caller& caller,
    Decoded<v1::GenerateRequest> request) {
  return NewGenerateReactor(
      context, caller, std::move(request), sessions_, &text_threads_, &calls_,
      [this] { return NewCompareTools(); }, relays_);
}

TransferCall ServiceImpl::NewTransfer(const Caller& caller) {
  TransferCall call;
  call.tenant = caller.tenant;
  call.sessions = sessions_;
  call.run = [this](uint64_t held_bytes, std::function<void()> work) {
    return text_threads_.Run(std::numeric_limits<size_t>::max(), held_bytes, std::move(work));
  };
  call.counted = std::make_shared<CallCount::Call>(&calls_);
  return call;
}

grpc::ServerWriteReactor<v1::ExportSessionResponse>* ServiceImpl::ExportSession(
    grpc::CallbackServerContext* context, const Caller& caller,
    Decoded<v1::ExportSessionRequest> request) {
  return NewExportReactor(context, *request.message, NewTransfer(caller));
}

grpc::ServerReadReactor<RawRequest<v1::ImportSessionRequest>>* ServiceImpl::ImportSession(
    grpc::CallbackServerContext* context, const Caller& caller, v1::Session* response) {
  return NewImportReactor(context, &request_memory_, NewTransfer(caller), CheckImportRequest,
                          [response](const SessionView& session) { ToProto(session, response); });
}

grpc::ServerUnaryReactor* ServiceImpl::PutNotes(grpc::CallbackServerContext* /*context*/,
                                                const Caller& caller,
                                                Decoded<v1::PutNotesRequest> request,
                                                v1::PutNotesResponse* response) {
  return NewPutNotesCall({sessions_, &request_memory_, &calls_}, caller.tenant, std::move(request),
                         response);
}

grpc::ServerUnaryReactor* ServiceImpl::FindNotes(grpc::CallbackServerContext* /*context*/,
                                                 const Caller& caller,
                                                 const v1::FindNotesRequest& request,
                                                 v1::FindNotesResponse* response) {
  return NewFindNotesCall({sessions_, &request_memory_, &calls_}, caller.tenant, request, response);
}

grpc::ServerWriteReactor<v1::ScoreResponse>* ServiceImpl::Score(
    grpc::CallbackServerContext* context, const Caller& caller, Decoded<v1::ScoreRequest> request) {
  return NewScoreReactor(context, caller, std::move(request), sessions_, &text_threads_, &calls_);
}

grpc::ServerUnaryReactor* ServiceImpl::Tokenize(grpc::CallbackServerContext* /*context*/,
                                                const Caller& caller,
                                                Decoded<v1::TokenizeRequest> request,
                                                v1::TokenizeResponse* response) {
  return NewTokenizeCall({sessions_, &text_threads_, &request_memory_, &calls_}, caller.tenant,
                         std::move(request), response);
}

grpc::ServerUnaryReactor* ServiceImpl::Detokenize(grpc::CallbackServerContext* /*context*/,
                                                  const Caller& caller,
                                                  Decoded<v1::DetokenizeRequest> request,
                                                  v1::DetokenizeResponse* response) {
  return NewDetokenizeCall({sessions_, &text_threads_, &request_memory_, &calls_}, caller.tenant,
                           std::move(request), response);
}

CompareTools ServiceImpl::NewCompareTools() {
  CompareTools tools;
  tools.limits = compare_limits_;
  tools.timers = sessions_->timers();
  tools.compute = [this](std::function<void()> work) {
    // The queue has no limit: each call has one piece of work in it.
    compare_threads_.Run(std::numeric_limits<size_t>::max(), 0, std::move(work)).IgnoreError();
  };
  tools.to_finish = [](const TurnEnd& end, v1::Finish* message) { ToProto(end, message); };
  tools.counted = std::make_shared<CallCount::Call>(&calls_);
  return tools;
}

grpc::ServerWriteReactor<v1::CompareResponse>* ServiceImpl::Compare(
    grpc::CallbackServerContext* context, const Caller& caller,
    Decoded<v1::CompareRequest> request) {
  const auto call = std::make_shared<CompareCall>(context, NewCompareTools());
  call->Hold();
  // Shared, because std::function can only hold what can be copied.
  const auto held = std::make_shared<Decoded<v1::CompareRequest>>(std::move(request));
  // The answer of LoadTurn for the session; nullptr: the request names none.
  using SessionTurn = std::shared_ptr<absl::StatusOr<NewTurn>>;
  const auto check = [this, context, tenant = caller.tenant, held](const SessionTurn& session) {
    return CheckCompare(tenant, std::string(RequestIdOf(*context)),
                        DeadlineFrom(context->raw_deadline()), *held->message, &request_memory_,
                        *sessions_, session.get());
  };
  const size_t text_bytes = TextBytes(*held->message);
  const uint64_t held_bytes = held->charge.bytes();
  const auto run = [this, call, check, text_bytes, held_bytes](const SessionTurn& session) {
    const absl::Status status = text_threads_.Run(text_bytes, held_bytes, [call, check, session] {
      call->Begin([&check, &session] { return check(session); });
    });
    if (!status.ok()) call->Refuse(status);
  };
  const auto loaded = [run](absl::StatusOr<NewTurn> session) {
    run(std::make_shared<absl::StatusOr<NewTurn>>(std::move(session)));
  };
  const std::string& session_id = held->message->session_id();
  if (session_id.empty()) {
    run(nullptr);
    return call.get();
  }
  const absl::StatusOr<SessionId> id = SessionId::Parse(session_id, "session_id");
  if (id.ok()) {
    sessions_->LoadHistory({caller.tenant, *id}, loaded);
  } else {
    loaded(id.status());
  }
  return call.get();
}

}  // namespace longstream
