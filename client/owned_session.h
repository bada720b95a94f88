// A session of the program's own, closed whatever becomes of the calls on it.
#ifndef LONGSTREAM_CLIENT_OWNED_SESSION_H_
#define LONGSTREAM_CLIENT_OWNED_SESSION_H_

#include <string>

#include "client/connection.h"

namespace longstream::client {

// Opens a session and closes it with the object. Borrows the connection. The id is drawn here, so
// that a session whose opening was cancelled on its way back is closed too.
class OwnedSession {
 public:
  // A new one on `model`. Throws CallError.
  OwnedSession(Connection& connection, const std::string& model);
  // A fork of `parent`, as it stands now. Throws CallError.
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
