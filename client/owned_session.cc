// Drawing ids, opening and closing.
#include "client/owned_session.h"

#include <iostream>
#include <random>

namespace longstream::client {
namespace {

// 32 hexadecimal digits, as OpenSessionRequest.session_id wants them.
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

}  // namespace

OwnedSession::OwnedSession(Connection& connection, const std::string& model)
    : connection_(connection), id_(RandomId()) {
  try {
    connection_.Open(model, id_);
  } catch (const CallError& error) {
    if (error.status().error_code() == grpc::StatusCode::CANCELLED) CloseQuietly(connection_, id_);
    throw;
  }
}

OwnedSession::~OwnedSession() { CloseQuietly(connection_, id_); }

}  // namespace longstream::client
