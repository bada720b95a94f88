// Makes the calls of a Connection and converts their errors to CallError.
#include "client/connection.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "client/connection_calls.h"
#include "client/errors/error_details.h"

namespace longstream::client {
namespace {

using Clock = std::chrono::steady_clock;

// "NOT_FOUND". Abseil has the codes of gRPC.
std::string CodeName(grpc::StatusCode code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

// The pause between two calls that ask whether the server serves.
constexpr std::chrono::milliseconds kProbePause{50};

// How long a thread waits before it looks whether there was an interrupt.
constexpr std::chrono::milliseconds kInterruptPeriod{50};

// The server's id of a call; "": the server has not ended the call.
std::string RequestId(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find("x-request-id");
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

// Reconnects soon, because a server that was started again serves within seconds.
grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments arguments;
  // A page of a history may have a message as large as a request.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return arguments;
}

// The time of --wait has passed. `last`: how the last call ended.
CallError NotServing(const grpc::Status& last) {
  return CallError(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                "the server did not serve within the time of --wait" +
                                    (last.ok() ? "" : ": " + last.error_message())));
}

// Throws if a wait for the model, or for any model if the name is empty, would have no end.
void ThrowIfFailed(const std::string& model, const v1::ListModelsResponse& known) {
  std::string failures;
  for (const v1::Model& one : known.models()) {
    if (!model.empty() && one.name() != model) continue;
    if (one.state() != v1::MODEL_STATE_FAILED) return;
    failures += (failures.empty() ? "" : "; ") + one.error();
  }
  if (!failures.empty()) throw CallError({grpc::StatusCode::UNAVAILABLE, failures});
}

}  // namespace

// Only failures of the server itself are logged at the usual level, so only they name their id.
CallError::CallError(const grpc::Status& status, std::string request_id)
    : std::runtime_error(CodeName(status.error_code()) + ": " + status.error_message() +
                         (status.error_code() == grpc::StatusCode::INTERNAL && !request_id.empty()
                              ? " (request id " + request_id + ")"
                              : "")),
      status_(status),
      request_id_(std::move(request_id)),
      exit_code_(status.error_code() == grpc::StatusCode::UNAVAILABLE ? kNoServer : kCallFailed) {}

std::string CallError::code_name() const { return CodeName(status_.error_code()); }

std::optional<std::chrono::milliseconds> CallError::retry_after() const {
  return RetryDelay(status_);
}

std::string CallError::session_address() const { return AddressOfSession(status_); }

void Connection::Stubs::Check(const grpc::ClientContext& context, const grpc::Status& status) {
  std::string request_id = RequestId(context);
  if (status.ok() || !request_id.empty()) has_connected = true;
  if (!status.ok()) throw CallError(status, std::move(request_id));
}

void NameSession(std::string session, grpc::ClientContext* context) {
  constexpr size_t kDigits = 32;
  if (session.size() != kDigits) return;
  for (char& c : session) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return;
  }
  context->AddMetadata("x-session-id", session);
}

void NameCaller(const Caller& caller, grpc::ClientContext* context) {
  if (!caller.authorization.empty()) context->AddMetadata("authorization", caller.authorization);
  if (!caller.request_id.empty()) context->AddMetadata("x-request-id", caller.request_id);
}

void Connection::Stubs::Pause(std::chrono::milliseconds time, const Caller& caller) {
  const auto until = std::chrono::system_clock::now() + time;
  while (!Interrupted() && !IsCancelled(caller) && std::chrono::system_clock::now() < until) {
    const auto next = std::min<std::chrono::system_clock::time_point>(
        until, std::chrono::system_clock::now() + kInterruptPeriod);
    if (in_process || channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
      std::this_thread::sleep_until(next);
    } else if (channel->WaitForConnected(next)) {
      return;
    }
  }
}

bool Connection::Stubs::HasConnected() {
  while (!has_connected && !Interrupted()) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) has_connected = true;
    if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) break;
    channel->WaitForStateChange(state, std::chrono::system_clock::now() + kInterruptPeriod);
  }
  return has_connected;
}

Connection::Connection(const std::string& server, const ChannelSecurity& security)
    : Connection(MakeChannel(server, security, ChannelArguments()), /*in_process=*/false) {}

Connection::Connection(std::shared_ptr<grpc::Channel> channel, bool in_process)
    : stubs_(std::make_shared<Stubs>(std::move(channel), in_process)) {}

Connection Connection::InProcess(std::shared_ptr<grpc::Channel> channel) {
  return Connection(std::move(channel), /*in_process=*/true);
}

Connection Connection::For(Caller caller) const {
  Connection connection = *this;
  connection.caller_ = std::move(caller);
  return connection;
}

bool Connection::Cancelled() const { return Interrupted() || IsCancelled(caller_); }

void Connection::WaitUntilServing(const std::string& model, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  grpc::Status status;
  do {
    if (Interrupted()) throw Interruption();
    grpc::ClientContext context;
    NameCaller(caller_, &context);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    request.set_service(model);
    status = stubs_->health.Check(&context, request, &response);
    if (status.ok() && response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return;
    if (status.ok()) {
      grpc::ClientContext asking;
      NameCaller(caller_, &asking);
      asking.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
      v1::ListModelsResponse known;
      if (stubs_->longstream.ListModels(&asking, {}, &known).ok()) ThrowIfFailed(model, known);
    }
    stubs_->Pause(kProbePause, caller_);
  } while (Clock::now() < until);
  throw NotServing(status);
}

v1::ListModelsResponse Connection::WaitForModels(std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  while (true) {
    if (Interrupted()) throw Interruption();
    grpc::ClientContext context;
    NameCaller(caller_, &context);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    v1::ListModelsResponse list;
    const grpc::Status status = stubs_->longstream.ListModels(&context, {}, &list);
    if (status.ok()) return list;
    const int code = status.error_code();
    if (code != grpc::UNAVAILABLE && code != grpc::DEADLINE_EXCEEDED) throw CallError(status);
    if (Clock::now() >= until) throw NotServing(status);
    stubs_->Pause(kProbePause, caller_);
  }
}

void Connection::WaitUntilSessionServes(const std::string& id, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  std::string model;
  while (model.empty()) {
    try {
      model = Get(id).model();
    } catch (const CallError& error) {
      if (Interrupted()) throw Interruption();
      if (error.status().error_code() != grpc::StatusCode::UNAVAILABLE) throw;
      if (Clock::now() >= until) throw NotServing(error.status());
      stubs_->Pause(kProbePause, caller_);
    }
  }
  WaitUntilServing(model,
                   std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()));
}

v1::ListModelsResponse Connection::ModelsAndAliases() {
  Call call(caller_);
  v1::ListModelsResponse response;
  stubs_->Check(call.context, stubs_->longstream.ListModels(&call.context, {}, &response));
  return response;
}

std::vector<v1::Model> Connection::Models() {
  const v1::ListModelsResponse response = ModelsAndAliases();
  return {response.models().begin(), response.models().end()};
}

v1::Model Connection::Model(const std::string& name) {
  Call call(caller_);
  v1::GetModelRequest request;
  v1::Model model;
  request.set_name(name);
  stubs_->Check(call.context, stubs_->longstream.GetModel(&call.context, request, &model));
  return model;
}

v1::Session Connection::Open(const std::string& model, const std::string& id) {
  v1::OpenSessionRequest request;
  request.set_model(model);
  request.set_session_id(id);
  return Open(request);
}

v1::Session Connection::Open(const v1::OpenSessionRequest& request) {
  Call call(caller_, request.session_id());
  v1::Session session;
  stubs_->Check(call.context, stubs_->longstream.OpenSession(&call.context, request, &session));
  return session;
}

v1::Session Connection::Get(const std::string& id) {
  Call call(caller_, id);
  v1::GetSessionRequest request;
  v1::Session session;
  request.set_session_id(id);
  stubs_->Check(call.context, stubs_->longstream.GetSession(&call.context, request, &session));
  return session;
}

v1::Session Connection::Fork(const std::string& id, const std::string& new_id) {
  v1::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_new_session_id(new_id);
  return Fork(request);
}

v1::Session Connection::RewindToTurn(const std::string& id, const std::string& turn) {
  v1::RewindSessionRequest request;
  request.set_session_id(id);
  request.set_turn_id(turn);
  return Rewind(request);
}

v1::Session Connection::RewindToPosition(const std::string& id, uint64_t position) {
  v1::RewindSessionRequest request;
  request.set_session_id(id);
  request.set_position(position);
  return Rewind(request);
}

v1::Session Connection::Rewind(const v1::RewindSessionRequest& request) {
  Call call(caller_, request.session_id());
  v1::Session session;
  stubs_->Check(call.context, stubs_->longstream.RewindSession(&call.context, request, &session));
  return session;
}

v1::Session Connection::Fork(const v1::ForkSessionRequest& request) {
  Call call(caller_, request.session_id());
  v1::Session session;
  stubs_->Check(call.context, stubs_->longstream.ForkSession(&call.context, request, &session));
  return session;
}

v1::AppendResponse Connection::Append(const std::string& id, const std::string& text) {
  v1::AppendRequest request;
  request.set_session_id(id);
  request.mutable_input()->set_text(text);
  return Append(request);
}

v1::AppendResponse Connection::Append(const v1::AppendRequest& request) {
  Call call(caller_, request.session_id());
  v1::AppendResponse response;
  const auto writer = stubs_->longstream.Append(&call.context, &response);
  // If a write fails, Finish returns the reason.
  writer->Write(request);
  writer->WritesDone();
  stubs_->Check(call.context, writer->Finish());
  return response;
}

v1::ListSessionsResponse Connection::SessionsPage(const v1::ListSessionsRequest& request) {
  Call call(caller_);
  v1::ListSessionsResponse response;
  stubs_->Check(call.context, stubs_->longstream.ListSessions(&call.context, request, &response));
  return response;
}

std::vector<v1::Session> Connection::Sessions(const std::string& model, const std::string& alias) {
  std::vector<v1::Session> sessions;
  v1::ListSessionsRequest request;
  request.set_model(model);
  request.set_alias(alias);
  do {
    const v1::ListSessionsResponse response = SessionsPage(request);
    sessions.insert(sessions.end(), response.sessions().begin(), response.sessions().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return sessions;
}

v1::CloseSessionResponse Connection::Close(const std::string& id) {
  EndingCall call(caller_, id);
  v1::CloseSessionRequest request;
  v1::CloseSessionResponse response;
  request.set_session_id(id);
  stubs_->Check(call.context, stubs_->longstream.CloseSession(&call.context, request, &response));
  return response;
}

void Connection::Export(const std::string& id, bool sealed,
                        const std::function<void(std::string_view)>& on_bytes) {
  Call call(caller_, id);
  v1::ExportSessionRequest request;
  request.set_session_id(id);
  request.set_sealed(sealed);
  const auto reader = stubs_->longstream.ExportSession(&call.context, request);
  v1::ExportSessionResponse response;
  try {
    while (reader->Read(&response)) on_bytes(response.data());
  } catch (...) {
    call.context.TryCancel();
    reader->Finish();
    throw;
  }
  stubs_->Check(call.context, reader->Finish());
}

v1::Session Connection::Import(const v1::ImportSessionRequest& request,
                               const std::function<std::string()>& next_bytes) {
  Call call(caller_, request.session_id());
  v1::Session session;
  const auto writer = stubs_->longstream.ImportSession(&call.context, &session);
  v1::ImportSessionRequest message = request;
  try {
    do {
      message.set_data(next_bytes());
    } while (!message.data().empty() && writer->Write(message));
  } catch (...) {
    call.context.TryCancel();
    writer->Finish();
    throw;
  }
  // If a write fails, Finish returns the reason.
  writer->WritesDone();
  stubs_->Check(call.context, writer->Finish());
  return session;
}

v1::ScoreSummary Connection::Score(const v1::ScoreRequest& request, const OnPiece& on_piece) {
  Call call(caller_);
  const auto reader = stubs_->longstream.Score(&call.context, request);
  v1::ScoreSummary summary;
  v1::ScoreResponse response;
  while (reader->Read(&response)) {
    if (response.has_summary()) summary = response.summary();
    if (on_piece) on_piece(response);
  }
  stubs_->Check(call.context, reader->Finish());
  return summary;
}

v1::TokenizeResponse Connection::Tokenize(const v1::TokenizeRequest& request) {
  Call call(caller_);
  v1::TokenizeResponse response;
  stubs_->Check(call.context, stubs_->longstream.Tokenize(&call.context, request, &response));
  return response;
}

void Connection::PutNotes(const v1::PutNotesRequest& request) {
  Call call(caller_, request.session_id());
  v1::PutNotesResponse response;
  stubs_->Check(call.context, stubs_->longstream.PutNotes(&call.context, request, &response));
}

v1::FindNotesResponse Connection::FindNotes(const v1::FindNotesRequest& request) {
  Call call(caller_);
  v1::FindNotesResponse response;
  stubs_->Check(call.context, stubs_->longstream.FindNotes(&call.context, request, &response));
  return response;
}

v1::DetokenizeResponse Connection::Detokenize(const v1::DetokenizeRequest& request) {
  Call call(caller_);
  v1::DetokenizeResponse response;
  stubs_->Check(call.context, stubs_->longstream.Detokenize(&call.context, request, &response));
  return response;
}

void Connection::Compare(
    const v1::CompareRequest& request,
    const std::function<void(const v1::CompareResponse& response)>& on_message) {
  Call call(caller_, request.session_id());
  const auto reader = stubs_->longstream.Compare(&call.context, request);
  v1::CompareResponse response;
  while (reader->Read(&response)) on_message(response);
  stubs_->Check(call.context, reader->Finish());
}

}  // namespace longstream::client
