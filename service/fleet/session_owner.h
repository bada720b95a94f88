// Which replica has a session, as a part of an error.
#ifndef LONGSTREAM_SERVICE_FLEET_SESSION_OWNER_H_
#define LONGSTREAM_SERVICE_FLEET_SESSION_OWNER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "service/sessions/fleet/transactions.h"

namespace longstream::fleet {

struct SessionOwner {
  ReplicaName name;
  std::string client_address;  // host:port of longstream.v1
};

inline constexpr const char* kSessionOwnerPayload = "longstream.session_owner";

// Returns the error with the replica that has the session. FAILED_PRECONDITION with an owner tells
// the client to send its request there (fleet.foreign: redirect). ABORTED with an owner means that
// a turn runs there, and stays inside of the server. Neither a name nor an address has a newline.
inline absl::Status WithOwner(absl::Status status, const SessionOwner& owner) {
  status.SetPayload(kSessionOwnerPayload, absl::Cord(owner.name + "\n" + owner.client_address));
  return status;
}

// Absent: the error names none.
inline std::optional<SessionOwner> OwnerOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kSessionOwnerPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const size_t end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  return SessionOwner{text.substr(0, end), text.substr(end + 1)};
}

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_SESSION_OWNER_H_
