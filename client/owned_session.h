// A session that the program opens, and closes unless it is kept.
#ifndef LONGSTREAM_CLIENT_OWNED_SESSION_H_
#define LONGSTREAM_CLIENT_OWNED_SESSION_H_

#include <string>

#include "client/connection.h"

namespace longstream::client {

// The constructor opens a session and the destructor closes it. The connection is borrowed. The
// client draws the id of the session. So it can close the session even if the call that opens it is
// cancelled before the answer arrives, and a proxy can route that call as the session's other ones.
class OwnedSession {
 public:
  // Opens a session on `model`. Throws CallError.
  OwnedSession(Connection& connection, const std::string& model);
  // Opens the session of the request, whose session_id is replaced. Throws CallError.
  OwnedSession(Connection& connection, v1::OpenSessionRequest request);
  // Opens a fork of `parent` in its present state. Throws CallError.
  OwnedSession(Connection& connection, const OwnedSession& parent);
  ~OwnedSession();
  OwnedSession(const OwnedSession&) = delete;
  OwnedSession& operator=(const OwnedSession&) = delete;

  // The destructor leaves the session open.
  void Keep() { kept_ = true; }

  const std::string& id() const { return id_; }
  // The session as it was opened.
  const v1::Session& opened() const { return opened_; }

 private:
  Connection& connection_;
  const std::string id_;
  v1::Session opened_;
  bool kept_ = false;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_OWNED_SESSION_H_
