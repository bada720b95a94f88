// A session that the program opens for itself and always closes.
#ifndef LONGSTREAM_CLIENT_OWNED_SESSION_H_
#define LONGSTREAM_CLIENT_OWNED_SESSION_H_

#include <string>

#include "client/connection.h"

namespace longstream::client {

// Opens a session; the destructor closes it. Borrows the connection. The object draws the id
// itself, so that it can close a session whose opening was cancelled before the answer arrived.
class OwnedSession {
 public:
  // Opens a session on `model`. Throws CallError.
  OwnedSession(Connection& connection, const std::string& model);
  // Forks `parent` as it is now. Throws CallError.
  OwnedSession(Connection& connection, const OwnedSession& parent);
  ~OwnedSession();
  OwnedSession(const OwnedSession&) = delete;
  OwnedSession& operator=(const OwnedSession&) = delete;

  const std::string& id() const { return id_; }

 private:
  Connection& connection_;
  const std::string id_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_OWNED_SESSION_H_
