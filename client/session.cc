// Names turns and sessions, so that calls can be made again.
#include "client/session.h"

#include "client/errors/retries.h"
#include "client/random_id.h"

namespace longstream::client {
namespace {

// The on_message of a turn whose caller wants text.
Connection::OnMessage ForText(const Session::OnText& on_text) {
  if (!on_text) return {};
  return [&on_text](const v1::GenerateResponse& response) {
    if (!response.delta().text().empty()) on_text(response.delta().text());
    return true;
  };
}

}  // namespace

v1::Messages UserMessage(std::string_view text) {
  v1::Messages messages;
  v1::Message& message = *messages.add_messages();
  message.set_role("user");
  message.set_content(std::string(text));
  return messages;
}

Session::Session(const Connection& connection, v1::OpenSessionRequest request)
    : connection_(connection) {
  if (request.session_id().empty()) request.set_session_id(RandomId());
  Make(request.session_id(), [&] { return connection_.Open(request); });
}

Session::Session(const Connection& connection, const std::string& model)
    : Session(connection, [&] {
        v1::OpenSessionRequest request;
        request.set_model(model);
        return request;
      }()) {}

Session Session::Attach(const Connection& connection, const std::string& id) {
  Session session(connection);
  session.id_ = id;
  session.opened_ = session.Info();
  session.id_ = session.opened_.session_id();
  return session;
}

Session::~Session() { CloseUnlessKept(); }

Session::Session(Session&& other) noexcept
    : connection_(std::move(other.connection_)),
      id_(std::move(other.id_)),
      opened_(std::move(other.opened_)),
      closes_(std::exchange(other.closes_, false)),
      on_close_failed_(std::move(other.on_close_failed_)) {}

Session& Session::operator=(Session&& other) noexcept {
  if (this == &other) return *this;
  CloseUnlessKept();
  connection_ = std::move(other.connection_);
  id_ = std::move(other.id_);
  opened_ = std::move(other.opened_);
  closes_ = std::exchange(other.closes_, false);
  on_close_failed_ = std::move(other.on_close_failed_);
  return *this;
}

// If the call was cancelled or lost, the session may exist all the same. A proxy can route the
// calls that follow as this one, because the client has drawn the id.
void Session::Make(const std::string& id, const std::function<v1::Session()>& open) {
  id_ = id;
  try {
    connection_.Repeat([&] { opened_ = open(); });
  } catch (const CallError& error) {
    if (MayHaveBegun(error.status())) {
      closes_ = true;
      CloseUnlessKept();
    }
    throw;
  }
  closes_ = true;
}

void Session::CloseUnlessKept() {
  if (!std::exchange(closes_, false)) return;
  try {
    connection_.Close(id_);
  } catch (const CallError& error) {
    const bool has_ended = error.status().error_code() == grpc::StatusCode::NOT_FOUND;
    if (!has_ended && on_close_failed_) on_close_failed_(id_, error);
  }
}

Generation Session::Generate(std::string_view text, v1::GenerateRequest options,
                             const OnText& on_text) {
  options.mutable_input()->set_text(std::string(text));
  return Generate(std::move(options), ForText(on_text));
}

Generation Session::Generate(const v1::Messages& messages, v1::GenerateRequest options,
                             const OnText& on_text) {
  *options.mutable_input()->mutable_messages() = messages;
  return Generate(std::move(options), ForText(on_text));
}

Generation Session::Generate(v1::GenerateRequest request, const Connection::OnMessage& on_message,
                             const Connection::OnLost& on_lost) {
  request.set_session_id(id_);
  return connection_.Generate(request, on_message, on_lost);
}

v1::AppendResponse Session::Append(std::string_view text) {
  v1::AppendRequest request;
  request.mutable_input()->set_text(std::string(text));
  return Append(std::move(request));
}

v1::AppendResponse Session::Append(v1::AppendRequest request) {
  request.set_session_id(id_);
  if (request.turn_id().empty()) request.set_turn_id(RandomId());
  v1::AppendResponse response;
  connection_.Repeat([&] { response = connection_.Append(request); });
  return response;
}

Session Session::Fork(v1::ForkSessionRequest request) {
  request.set_session_id(id_);
  if (request.new_session_id().empty()) request.set_new_session_id(RandomId());
  Session fork(connection_);
  fork.on_close_failed_ = on_close_failed_;
  fork.Make(request.new_session_id(), [&] { return fork.connection_.Fork(request); });
  return fork;
}

Session Session::ForkAtTurn(const std::string& turn_id) {
  v1::ForkSessionRequest request;
  request.set_turn_id(turn_id);
  return Fork(std::move(request));
}

Session Session::ForkAtPosition(uint64_t position) {
  v1::ForkSessionRequest request;
  request.set_position(position);
  return Fork(std::move(request));
}

v1::Session Session::RewindToTurn(const std::string& turn_id) {
  v1::Session session;
  connection_.Repeat([&] { session = connection_.RewindToTurn(id_, turn_id); });
  return session;
}

v1::Session Session::RewindToPosition(uint64_t position) {
  v1::Session session;
  connection_.Repeat([&] { session = connection_.RewindToPosition(id_, position); });
  return session;
}

v1::Session Session::Info() {
  v1::Session session;
  connection_.Repeat([&] { session = connection_.Get(id_); });
  return session;
}

std::vector<v1::Turn> Session::Turns() {
  std::vector<v1::Turn> turns;
  connection_.Repeat([&] { turns = connection_.Turns(id_); });
  return turns;
}

std::vector<v1::HistoryEntry> Session::History() {
  std::vector<v1::HistoryEntry> history;
  connection_.Repeat([&] { history = connection_.History(id_); });
  return history;
}

v1::Turn Session::CancelTurn(const std::string& turn_id) {
  return connection_.CancelTurn(id_, turn_id);
}

void Session::Close() {
  closes_ = false;
  connection_.Close(id_);
}

}  // namespace longstream::client
