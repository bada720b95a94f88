// The key of a session: whose it is, and its id.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_KEY_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_KEY_H_

#include <compare>
#include <string>

#include "service/sessions/session_id.h"

namespace longstream {

// Two tenants may use the same session id for two sessions. A call finds sessions by the key of its
// own tenant only, so a session of another tenant is as unknown as one that does not exist.
struct SessionKey {
  std::string tenant;  // empty if the server's configuration names no tenants
  SessionId id;

  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_KEY_H_
