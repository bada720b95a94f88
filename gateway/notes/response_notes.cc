#include "gateway/notes/response_notes.h"

#include <grpcpp/support/status.h>

#include "gateway/conversations/conversation_key.h"

namespace longstream::gateway {
namespace {

std::string KeyText(const std::string& id, const std::string& owner) {
  const ConversationKey key = NextKey({}, {"response", owner, id});
  std::string text = "response ";
  text.append(key.begin(), key.end());
  return text;
}

}  // namespace

v1::Note NoteOfResponse(const std::string& id, const std::string& owner,
                        const notes::Response& response) {
  v1::Note note;
  note.set_key(KeyText(id, owner));
  note.set_value(response.SerializeAsString());
  return note;
}

std::optional<FoundResponse> FindResponse(client::Connection& connection, const std::string& id,
                                          const std::string& owner) {
  v1::FindNotesRequest request;
  request.add_keys(KeyText(id, owner));
  v1::FindNotesResponse response;
  try {
    response = connection.FindNotes(request);
  } catch (const client::CallError& error) {
    // A server of an earlier version has no notes.
    if (error.status().error_code() != grpc::StatusCode::UNIMPLEMENTED) throw;
  }
  if (response.notes_size() == 0) return std::nullopt;
  FoundResponse found;
  found.session_id = response.notes(0).session_id();
  const google::protobuf::Timestamp& time = response.notes(0).time();
  found.time = absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
  if (!found.response.ParseFromString(response.notes(0).value())) return std::nullopt;
  return found;
}

}  // namespace longstream::gateway
