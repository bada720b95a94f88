// Opens and closes sessions.
#include "client/owned_session.h"

#include <iostream>

#include "client/random_id.h"

namespace longstream::client {
namespace {

void CloseQuietly(Connection& connection, const std::string& id) {
  try {
    connection.Close(id);
  } catch (const CallError& error) {
    if (error.status().error_code() == grpc::StatusCode::NOT_FOUND) return;
    std::cerr << "session " << id << " was not closed: " << error.what() << "\n";
  }
}

// Runs `open`, a call that creates the session `id`. If the call was cancelled, the session may
// exist all the same, so closes it. Rethrows the exceptions of `open`.
template <typename Open>
void MakeSession(Connection& connection, const std::string& id, const Open& open) {
  try {
    open();
  } catch (const CallError& error) {
    if (error.status().error_code() == grpc::StatusCode::CANCELLED) CloseQuietly(connection, id);
    throw;
  }
}

}  // namespace

OwnedSession::OwnedSession(Connection& connection, const std::string& model)
    : connection_(connection), id_(RandomId()) {
  MakeSession(connection, id_, [&] { opened_ = connection.Open(model, id_); });
}

OwnedSession::OwnedSession(Connection& connection, v1::OpenSessionRequest request)
    : connection_(connection), id_(RandomId()) {
  request.set_session_id(id_);
  MakeSession(connection, id_, [&] { opened_ = connection.Open(request); });
}

OwnedSession::OwnedSession(Connection& connection, const OwnedSession& parent)
    : connection_(connection), id_(RandomId()) {
  MakeSession(connection, id_, [&] { opened_ = connection.Fork(parent.id(), id_); });
}

OwnedSession::~OwnedSession() {
  if (!kept_) CloseQuietly(connection_, id_);
}

}  // namespace longstream::client
