// Draws ids, opens and closes sessions.
#include "client/owned_session.h"

#include <iostream>
#include <random>

namespace longstream::client {
namespace {

// Returns a random id for OpenSessionRequest.session_id: 32 hexadecimal digits.
std::string RandomId() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    const uint32_t bits = random();
    for (int shift = 0; shift < 32; shift += 4) id += kDigits[(bits >> shift) & 0xf];
  }
  return id;
}

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
  MakeSession(connection, id_, [&] { connection.Open(model, id_); });
}

OwnedSession::OwnedSession(Connection& connection, const OwnedSession& parent)
    : connection_(connection), id_(RandomId()) {
  MakeSession(connection, id_, [&] { connection.Fork(parent.id(), id_); });
}

OwnedSession::~OwnedSession() { CloseQuietly(connection_, id_); }

}  // namespace longstream::client
