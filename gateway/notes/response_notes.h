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

struct FoundResponse {
  std::string session_id;  // that has the note
  absl::Time time;         // when the note was written, by the clock of the server that wrote it
  notes::Response response;
};
// Absent: there is no such response. One that its client has deleted is found, too. Throws
// client::CallError.
std::optional<FoundResponse> FindResponse(client::Connection& connection, const std::string& id,
                                          const std::string& owner);

// Larger notes cannot be written.
inline constexpr size_t kMostNoteBytes = size_t{1} << 20;

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_NOTES_RESPONSE_NOTES_H_
