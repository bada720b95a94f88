// Makes the calls of a Connection and converts their errors to CallError.
#include "client/connection.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "client/interrupt.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "longstream/v1/longstream.grpc.pb.h"

namespace longstream::client {
namespace {

using Clock = std::chrono::steady_clock;

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

// The deadline of Close. The deadline gives the server time to end a running turn, and ends the
// call if the server hangs.
constexpr std::chrono::seconds kCloseTimeout{5};

// The server's id of the call, under which its log has the failure; "": it has none. Only failures
// of the server itself are logged at the usual level.
std::string LoggedId(const grpc::ClientContext& context, const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::INTERNAL) return "";
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find("x-request-id");
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

// Throws CallError unless the call has ended with OK.
void Check(const grpc::ClientContext& context, const grpc::Status& status) {
  if (!status.ok()) throw CallError(status, LoggedId(context, status));
}

// The context of a call. An interrupt cancels the call.
struct Call {
  grpc::ClientContext context;
  OnInterrupt on_interrupt{[this] { context.TryCancel(); }};
};

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Collects the messages of one call on gRPC's threads.
class Collector final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  // Starts the call that is bound to this object and waits for its end.
  grpc::Status Run() {
    StartRead(&response_);
    StartCall();
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [&] { return status_.has_value(); });
    return *status_;
  }
  Generation TakeGeneration() { return std::move(generation_); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    generation_.Add(response_, SecondsSince(begin_));
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    // Notify while the lock is held. Once it is released, Run may return and this object may be
    // destroyed.
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    ended_.notify_one();
  }

 private:
  const Clock::time_point begin_ = Clock::now();
  v1::GenerateResponse response_;
  Generation generation_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<grpc::Status> status_;
};

}  // namespace

void Generation::Add(const v1::GenerateResponse& response, double seconds) {
  if (response.has_started()) started = response.started();
  if (response.has_finish()) finish = response.finish();
  if (!response.has_delta()) return;
  const v1::Delta& delta = response.delta();
  text += delta.text();
  if (delta.token_ids().empty()) return;
  token_seconds.push_back(seconds);
  token_counts.push_back(delta.token_ids_size());
  token_ids.insert(token_ids.end(), delta.token_ids().begin(), delta.token_ids().end());
  log_probs.insert(log_probs.end(), delta.log_probs().begin(), delta.log_probs().end());
}

CallError::CallError(const grpc::Status& status, const std::string& request_id)
    : std::runtime_error(std::string(CodeName(status.error_code())) + ": " +
                         status.error_message() +
                         (request_id.empty() ? "" : " (request id " + request_id + ")")),
      status_(status),
      exit_code_(status.error_code() == grpc::StatusCode::UNAVAILABLE ? kNoServer : kCallFailed) {}

const char* CallError::code_name() const { return CodeName(status_.error_code()); }

struct Connection::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : health(channel), longstream(channel) {}

  grpc::health::v1::Health::Stub health;
  v1::Longstream::Stub longstream;
};

Connection::Connection(const std::string& server)
    : stubs_(std::make_shared<Stubs>(
          grpc::CreateChannel(server, grpc::InsecureChannelCredentials()))) {}

void Connection::WaitUntilServing(const std::string& model, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  grpc::Status status;
  do {
    if (Interrupted()) throw Interruption();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    request.set_service(model);
    status = stubs_->health.Check(&context, request, &response);
    if (status.ok() && response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < until);
  throw CallError(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                               "the server did not serve within the time of --wait" +
                                   (status.ok() ? "" : ": " + status.error_message())));
}

std::vector<v1::Model> Connection::Models() {
  Call call;
  v1::ListModelsResponse response;
  Check(call.context, stubs_->longstream.ListModels(&call.context, {}, &response));
  return {response.models().begin(), response.models().end()};
}

v1::Model Connection::Model(const std::string& name) {
  Call call;
  v1::GetModelRequest request;
  v1::Model model;
  request.set_name(name);
  Check(call.context, stubs_->longstream.GetModel(&call.context, request, &model));
  return model;
}

v1::Session Connection::Open(const std::string& model, const std::string& id) {
  Call call;
  v1::OpenSessionRequest request;
  v1::Session session;
  request.set_model(model);
  request.set_session_id(id);
  Check(call.context, stubs_->longstream.OpenSession(&call.context, request, &session));
  return session;
}

v1::Session Connection::Get(const std::string& id) {
  Call call;
  v1::GetSessionRequest request;
  v1::Session session;
  request.set_session_id(id);
  Check(call.context, stubs_->longstream.GetSession(&call.context, request, &session));
  return session;
}

v1::Session Connection::Fork(const std::string& id, const std::string& new_id) {
  Call call;
  v1::ForkSessionRequest request;
  v1::Session session;
  request.set_session_id(id);
  request.set_new_session_id(new_id);
  Check(call.context, stubs_->longstream.ForkSession(&call.context, request, &session));
  return session;
}

v1::AppendResponse Connection::Append(const std::string& id, const std::string& text) {
  Call call;
  v1::AppendRequest request;
  v1::AppendResponse response;
  request.set_session_id(id);
  request.mutable_input()->set_text(text);
  const auto writer = stubs_->longstream.Append(&call.context, &response);
  // If a write fails, Finish returns the reason.
  writer->Write(request);
  writer->WritesDone();
  Check(call.context, writer->Finish());
  return response;
}

std::vector<v1::Session> Connection::Sessions(const std::string& model) {
  std::vector<v1::Session> sessions;
  v1::ListSessionsRequest request;
  request.set_model(model);
  do {
    Call call;
    v1::ListSessionsResponse response;
    Check(call.context, stubs_->longstream.ListSessions(&call.context, request, &response));
    sessions.insert(sessions.end(), response.sessions().begin(), response.sessions().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return sessions;
}

v1::CloseSessionResponse Connection::Close(const std::string& id) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCloseTimeout);
  v1::CloseSessionRequest request;
  v1::CloseSessionResponse response;
  request.set_session_id(id);
  Check(context, stubs_->longstream.CloseSession(&context, request, &response));
  return response;
}

Generation Connection::Generate(const v1::GenerateRequest& request, const OnMessage& on_message) {
  Call call;
  const auto begin = Clock::now();
  const auto reader = stubs_->longstream.Generate(&call.context, request);
  Generation generation;
  std::exception_ptr thrown;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    generation.Add(response, SecondsSince(begin));
    try {
      if (!thrown && on_message && !on_message(response)) call.context.TryCancel();
    } catch (...) {
      // gRPC requires that the client reads the call to its end. Throw the exception after that.
      thrown = std::current_exception();
      call.context.TryCancel();
    }
  }
  const grpc::Status status = reader->Finish();
  if (thrown) std::rethrow_exception(thrown);
  Check(call.context, status);
  return generation;
}

Generation Connection::Collect(const v1::GenerateRequest& request) {
  Call call;
  Collector collector;
  stubs_->longstream.async()->Generate(&call.context, &request, &collector);
  Check(call.context, collector.Run());
  return collector.TakeGeneration();
}

v1::ScoreSummary Connection::Score(const v1::ScoreRequest& request, const OnPiece& on_piece) {
  Call call;
  const auto reader = stubs_->longstream.Score(&call.context, request);
  v1::ScoreSummary summary;
  v1::ScoreResponse response;
  while (reader->Read(&response)) {
    if (response.has_summary()) summary = response.summary();
    if (on_piece) on_piece(response);
  }
  Check(call.context, reader->Finish());
  return summary;
}

}  // namespace longstream::client
