#include "gateway/notes/response_notes.h"

#include <grpcpp/support/status.h>

#include <algorithm>

#include "gateway/conversations/conversation_key.h"

namespace longstream::gateway {
namespace {

// Kinds of notes.
constexpr char kResponse[] = "response";
constexpr char kBeat[] = "beat";

// `kind`: of the note.
std::string KeyText(const std::string& kind, const std::string& id, const std::string& owner) {
  const ConversationKey key = NextKey({}, {"response", owner, id});
  std::string text = kind + " ";
  text.append(key.begin(), key.end());
  return text;
}

absl::Time TimeOf(const v1::Note& note) {
  return absl::FromUnixSeconds(note.time().seconds()) + absl::Nanoseconds(note.time().nanos());
}

}  // namespace

v1::Note NoteOfResponse(const std::string& id, const std::string& owner,
                        const notes::Response& response) {
  v1::Note note;
  note.set_key(KeyText(kResponse, id, owner));
  note.set_value(response.SerializeAsString());
  return note;
}

v1::Note NoteOfBeat(const std::string& id, const std::string& owner, bool left) {
  notes::Beat beat;
  beat.set_left(left);
  v1::Note note;
  note.set_key(KeyText(kBeat, id, owner));
  note.set_value("b" + beat.SerializeAsString());  // an empty value would remove the note
  return note;
}

std::optional<FoundResponse> FindResponse(client::Connection& connection, const std::string& id,
                                          const std::string& owner) {
  v1::FindNotesRequest request;
  const std::string key = KeyText(kResponse, id, owner);
  request.add_keys(key);
  request.add_keys(KeyText(kBeat, id, owner));
  v1::FindNotesResponse response;
  try {
    response = connection.FindNotes(request);
  } catch (const client::CallError& error) {
    // A server of an earlier version has no notes.
    if (error.status().error_code() != grpc::StatusCode::UNIMPLEMENTED) throw;
  }
  std::optional<FoundResponse> found;
  absl::Time beat = absl::InfinitePast();
  bool left = false;
  for (const v1::Note& note : response.notes()) {
    beat = std::max(beat, TimeOf(note));
    if (note.key() == key) {
      found.emplace();
      found->session_id = note.session_id();
      if (!found->response.ParseFromString(note.value())) return std::nullopt;
    } else if (notes::Beat read; read.ParseFromString(note.value().substr(1))) {
      left = read.left();
    }
  }
  if (found.has_value()) found->beat = left ? absl::InfinitePast() : beat;
  return found;
}

}  // namespace longstream::gateway
