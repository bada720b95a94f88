// Calls and their errors.
#include "client/connection.h"

#include <chrono>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"

namespace longstream::client {
namespace {

using Clock = std::chrono::steady_clock;

// Messages carry log-probabilities of long texts.
constexpr int kMaxMessageBytes = 64 << 20;

const char* CodeName(grpc::StatusCode code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  return code >= 0 && code < 17 ? kNames[code] : "UNKNOWN";
}

void Check(const grpc::Status& status) {
  if (!status.ok()) throw CallError(status);
}

}  // namespace

CallError::CallError(const grpc::Status& status)
    : std::runtime_error(std::string(CodeName(status.error_code())) + ": " +
                         status.error_message()),
      status_(status),
      exit_code_(status.error_code() == grpc::StatusCode::UNAVAILABLE ? kNoServer : kCallFailed) {}

Connection::Connection(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  channel_ = grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::Longstream::NewStub(channel_);
}

void Connection::WaitUntilServing(const std::string& model, std::chrono::milliseconds timeout) {
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  const auto until = Clock::now() + timeout;
  grpc::Status status;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    request.set_service(model);
    status = health->Check(&context, request, &response);
    if (status.ok() && response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < until);
  throw CallError(grpc::Status(
      grpc::StatusCode::UNAVAILABLE,
      "not serving after the time given" + (status.ok() ? "" : ": " + status.error_message())));
}

std::vector<v1::Model> Connection::Models() {
  grpc::ClientContext context;
  v1::ListModelsResponse response;
  Check(stub_->ListModels(&context, {}, &response));
  return {response.models().begin(), response.models().end()};
}

v1::Model Connection::Model(const std::string& name) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  v1::Model model;
  request.set_name(name);
  Check(stub_->GetModel(&context, request, &model));
  return model;
}

v1::Session Connection::Open(const std::string& model, const std::string& id) {
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  v1::Session session;
  request.set_model(model);
  request.set_session_id(id);
  Check(stub_->OpenSession(&context, request, &session));
  return session;
}

v1::Session Connection::Get(const std::string& id) {
  grpc::ClientContext context;
  v1::GetSessionRequest request;
  v1::Session session;
  request.set_session_id(id);
  Check(stub_->GetSession(&context, request, &session));
  return session;
}

v1::Session Connection::Fork(const std::string& id) {
  grpc::ClientContext context;
  v1::ForkSessionRequest request;
  v1::Session session;
  request.set_session_id(id);
  Check(stub_->ForkSession(&context, request, &session));
  return session;
}

std::vector<v1::Session> Connection::Sessions(const std::string& model) {
  std::vector<v1::Session> sessions;
  v1::ListSessionsRequest request;
  request.set_model(model);
  do {
    grpc::ClientContext context;
    v1::ListSessionsResponse response;
    Check(stub_->ListSessions(&context, request, &response));
    sessions.insert(sessions.end(), response.sessions().begin(), response.sessions().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return sessions;
}

void Connection::Close(const std::string& id) {
  grpc::ClientContext context;
  v1::CloseSessionRequest request;
  v1::CloseSessionResponse response;
  request.set_session_id(id);
  Check(stub_->CloseSession(&context, request, &response));
}

Generation Connection::Generate(const v1::GenerateRequest& request, const OnMessage& on_message) {
  grpc::ClientContext context;
  const auto begin = Clock::now();
  const auto reader = stub_->Generate(&context, request);
  Generation generation;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_started()) generation.started = response.started();
    if (response.has_finish()) generation.finish = response.finish();
    if (response.has_delta()) {
      generation.text += response.delta().text();
      generation.token_seconds.push_back(
          std::chrono::duration<double>(Clock::now() - begin).count());
      generation.token_counts.push_back(response.delta().token_ids_size());
    }
    if (on_message && !on_message(response)) context.TryCancel();
  }
  Check(reader->Finish());
  return generation;
}

v1::ScoreSummary Connection::Score(const v1::ScoreRequest& request, const OnPiece& on_piece) {
  grpc::ClientContext context;
  const auto reader = stub_->Score(&context, request);
  v1::ScoreSummary summary;
  v1::ScoreResponse response;
  while (reader->Read(&response)) {
    if (response.has_summary()) summary = response.summary();
    if (on_piece) on_piece(response);
  }
  Check(reader->Finish());
  return summary;
}

}  // namespace longstream::client
