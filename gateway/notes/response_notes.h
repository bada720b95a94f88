// Responses that clients may refer to, also at another gateway and after a restart.
#ifndef LONGSTREAM_GATEWAY_NOTES_RESPONSE_NOTES_H_
#define LONGSTREAM_GATEWAY_NOTES_RESPONSE_NOTES_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/connection.h"
#include "gateway_notes.pb.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// `owner`: the credential of the client. For others the response does not exist.
v1::Note NoteOfResponse(const std::string& id, const std::string& owner,
                        const notes::Response& response);

// The note with which the gateway that makes the response says that it does.
v1::Note NoteOfBeat(const std::string& id, const std::string& owner, bool left);

struct FoundResponse {
  std::string session_id;  // that has the note
  // When the gateway that makes it has written a note last, by the clock of the server that wrote
  // it. InfinitePast: that gateway has left it.
  absl::Time beat;
  notes::Response response;

  bool deleted() const { return response.deleted() || response.json().empty(); }
};
// Absent: there is no such response. One that its client has deleted is found, too. Throws
// client::CallError.
std::optional<FoundResponse> FindResponse(client::Connection& connection, const std::string& id,
                                          const std::string& owner);

// Larger notes cannot be written.
inline constexpr size_t kMostNoteBytes = size_t{1} << 20;

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_NOTES_RESPONSE_NOTES_H_
