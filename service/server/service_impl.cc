// Implements the unary calls. The streaming calls have their own reactors.
#include "service/server/service_impl.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/append_reactor.h"
#include "service/server/request_check.h"
#include "service/server/to_proto.h"
#include "service/server/transport/grpc_status.h"
#include "service/server/turn_reactor.h"

namespace longstream {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;

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

// Returns a callback that answers a call with the new session. `is_drawn`: the server drew the
// session's id. If the caller has gone by then, no client knows the drawn id and could close the
// session. Therefore the callback closes it.
SessionManager::Opened AnswerWith(grpc::ServerUnaryReactor* reactor,
                                  const grpc::CallbackServerContext* context, bool is_drawn,
                                  SessionManager* sessions, v1::Session* response) {
  return [=](const absl::StatusOr<SessionView>& view) {
    if (view.ok() && is_drawn && context->IsCancelled()) {
      sessions->CloseSession(view->id, [](const absl::StatusOr<uint64_t>&) {});
      return reactor->Finish(ToGrpc(absl::CancelledError("the caller cancelled the call")));
    }
    if (view.ok()) ToProto(*view, response);
    reactor->Finish(ToGrpc(view.status()));
  };
}

}  // namespace

ServiceImpl::ServiceImpl(const ModelRegistry* models, SessionManager* sessions,
                         uint64_t max_request_bytes)
    : DecodingService(&request_memory_),
      models_(models),
      sessions_(sessions),
      request_memory_(max_request_bytes, [sessions] { sessions->NoteFreedMemory(); }),
      text_threads_(kTextThreads, max_request_bytes) {
  AddUnary("/longstream.v1.Longstream/OpenSession", &ServiceImpl::OpenSession);
  AddClientStream("/longstream.v1.Longstream/Append", &ServiceImpl::Append);
  AddServerStream("/longstream.v1.Longstream/Generate", &ServiceImpl::Generate);
  AddUnary("/longstream.v1.Longstream/GetSession", &ServiceImpl::GetSession);
  AddUnary("/longstream.v1.Longstream/ListSessions", &ServiceImpl::ListSessions);
  AddUnary("/longstream.v1.Longstream/ForkSession", &ServiceImpl::ForkSession);
  AddUnary("/longstream.v1.Longstream/CloseSession", &ServiceImpl::CloseSession);
  AddServerStream("/longstream.v1.Longstream/Score", &ServiceImpl::Score);
  AddUnary("/longstream.v1.Longstream/ListModels", &ServiceImpl::ListModels);
  AddUnary("/longstream.v1.Longstream/GetModel", &ServiceImpl::GetModel);
}

grpc::ServerUnaryReactor* ServiceImpl::OpenSession(grpc::CallbackServerContext* context,
                                                   const v1::OpenSessionRequest& request,
                                                   v1::Session* response) {
  const auto id = CheckSessionId(request.session_id(), "session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  const auto timeout = CheckIdleTimeout(request.has_idle_timeout(), request.idle_timeout());
  if (!timeout.ok()) return Finish(&calls_, timeout.status());
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->OpenSession(request.model(), *id, *timeout,
                         AnswerWith(reactor, context, !id->has_value(), sessions_, response));
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::ForkSession(grpc::CallbackServerContext* context,
                                                   const v1::ForkSessionRequest& request,
                                                   v1::Session* response) {
  const auto source = SessionId::Parse(request.session_id(), "session_id");
  if (!source.ok()) return Finish(&calls_, source.status());
  const auto id = CheckSessionId(request.new_session_id(), "new_session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  const auto timeout = CheckIdleTimeout(request.has_idle_timeout(), request.idle_timeout());
  if (!timeout.ok()) return Finish(&calls_, timeout.status());
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->ForkSession(*source, *id, *timeout,
                         AnswerWith(reactor, context, !id->has_value(), sessions_, response));
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::CloseSession(grpc::CallbackServerContext* /*context*/,
                                                    const v1::CloseSessionRequest& request,
                                                    v1::CloseSessionResponse* response) {
  const auto id = SessionId::Parse(request.session_id(), "session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  auto* reactor = new UnaryReactor(&calls_);
  sessions_->CloseSession(*id, [reactor, response](const absl::StatusOr<uint64_t>& position) {
    if (position.ok()) response->set_position(*position);
    reactor->Finish(ToGrpc(position.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* ServiceImpl::GetSession(grpc::CallbackServerContext* /*context*/,
                                                  const v1::GetSessionRequest& request,
                                                  v1::Session* response) {
  const auto id = SessionId::Parse(request.session_id(), "session_id");
  if (!id.ok()) return Finish(&calls_, id.status());
  const absl::StatusOr<SessionView> session = sessions_->View(*id);
  if (session.ok()) ToProto(*session, response);
  return Finish(&calls_, session.status());
}

grpc::ServerUnaryReactor* ServiceImpl::ListSessions(grpc::CallbackServerContext* /*context*/,
                                                    const v1::ListSessionsRequest& request,
                                                    v1::ListSessionsResponse* response) {
  const int page_size = request.page_size();
  if (page_size < 0 || page_size > kMaxPageSize) {
    return Finish(&calls_, absl::InvalidArgumentError(absl::StrCat(
                               "page_size: expected 0 ... ", kMaxPageSize, ", found ", page_size)));
  }
  const auto after = CheckSessionId(request.page_token(), "page_token");
  if (!after.ok()) return Finish(&calls_, after.status());
  if (!request.model().empty()) {
    const auto model = models_->Status(request.model());
    if (!model.ok()) return Finish(&calls_, model.status());
  }
  const size_t limit = page_size == 0 ? kDefaultPageSize : static_cast<size_t>(page_size);
  // Ask for one session more than the page holds, to know whether there is another page.
  const std::vector<SessionView> views = sessions_->List(*after, limit + 1, request.model());
  for (size_t i = 0; i < views.size() && i < limit; ++i) {
    ToProto(views[i], response->add_sessions());
  }
  if (views.size() > limit) response->set_next_page_token(views[limit - 1].id.ToString());
  return Finish(&calls_, absl::OkStatus());
}

grpc::ServerUnaryReactor* ServiceImpl::ListModels(grpc::CallbackServerContext* /*context*/,
                                                  const v1::ListModelsRequest& /*request*/,
                                                  v1::ListModelsResponse* response) {
  for (const ModelStatus& status : models_->List()) ToProto(status, response->add_models());
  return Finish(&calls_, absl::OkStatus());
}

grpc::ServerUnaryReactor* ServiceImpl::GetModel(grpc::CallbackServerContext* /*context*/,
                                                const v1::GetModelRequest& request,
                                                v1::Model* response) {
  const auto status = models_->Status(request.name());
  if (status.ok()) ToProto(*status, response);
  return Finish(&calls_, status.status());
}

grpc::ServerReadReactor<RawRequest<v1::AppendRequest>>* ServiceImpl::Append(
    grpc::CallbackServerContext* context, v1::AppendResponse* response) {
  return NewAppendReactor(context, response, sessions_, &text_threads_, &request_memory_, &calls_);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* ServiceImpl::Generate(
    grpc::CallbackServerContext* context, Decoded<v1::GenerateRequest> request) {
  return NewGenerateReactor(context, std::move(request), sessions_, &text_threads_, &calls_);
}

grpc::ServerWriteReactor<v1::ScoreResponse>* ServiceImpl::Score(
    grpc::CallbackServerContext* context, Decoded<v1::ScoreRequest> request) {
  return NewScoreReactor(context, std::move(request), sessions_, &text_threads_, &calls_);
}

}  // namespace longstream
