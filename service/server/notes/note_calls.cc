// Checks the requests; the session manager asks the store.
#include "service/server/notes/note_calls.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/server/routing/wire_times.h"
#include "service/server/transport/held_answer.h"
#include "service/server/transport/late_answer.h"

namespace longstream {
namespace {

using FoundNotes = store::SessionStore::FoundNotes;

constexpr int kMostNotes = 64;  // of one call
constexpr size_t kMostKeyBytes = 64;
constexpr size_t kMostValueBytes = size_t{1} << 20;
constexpr size_t kMostNoteBytes = size_t{2} << 20;  // of the values of one call
// The bytes of a note's other fields, and of its objects.
constexpr uint64_t kOtherBytes = 512;

absl::Status CheckCount(const char* field, int count) {
  if (count >= 1 && count <= kMostNotes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected 1 ... ", kMostNotes, ", found ", count));
}

// `field`: the list; `part`: the field of its element, such as ".key".
absl::Status CheckKey(const char* field, int index, const char* part, const std::string& key) {
  if (!key.empty() && key.size() <= kMostKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, "[", index, "]", part, ": expected 1 ... ",
                                                 kMostKeyBytes, " bytes, found ", key.size()));
}

absl::Status CheckNotes(const v1::PutNotesRequest& request) {
  absl::Status status = CheckCount("notes", request.notes_size());
  size_t bytes = 0;
  for (int i = 0; status.ok() && i < request.notes_size(); ++i) {
    const v1::Note& note = request.notes(i);
    status = CheckKey("notes", i, ".key", note.key());
    if (status.ok() && note.value().size() > kMostValueBytes) {
      return absl::InvalidArgumentError(absl::StrCat("notes[", i, "].value: expected at most ",
                                                     kMostValueBytes, " bytes, found ",
                                                     note.value().size()));
    }
    bytes += note.value().size();
  }
  if (!status.ok() || bytes <= kMostNoteBytes) return status;
  return absl::InvalidArgumentError(absl::StrCat("notes: expected at most ", kMostNoteBytes,
                                                 " bytes of values together, found ", bytes));
}

absl::Status CheckKeys(const v1::FindNotesRequest& request) {
  absl::Status status = CheckCount("keys", request.keys_size());
  for (int i = 0; status.ok() && i < request.keys_size(); ++i) {
    status = CheckKey("keys", i, "", request.keys(i));
  }
  return status;
}

absl::StatusOr<v1::FindNotesResponse> AnswerOf(absl::StatusOr<FoundNotes> found,
                                               RequestMemory* memory, HeldAnswer* held) {
  if (!found.ok()) return found.status();
  uint64_t bytes = kOtherBytes;
  for (const store::NoteRow& note : found->notes) bytes += kOtherBytes + note.value.size();
  held->answer.emplace(memory, bytes);
  if (absl::Status status = held->answer->Add(bytes); !status.ok()) return status;
  v1::FindNotesResponse response;
  response.set_keys_looked_for(static_cast<uint32_t>(found->keys));
  for (store::NoteRow& note : found->notes) {
    v1::Note* const message = response.add_notes();
    message->set_session_id(note.session.id.ToString());
    message->set_key(std::move(note.key));
    message->set_value(std::move(note.value));
    SetTime(note.time, message->mutable_time());
  }
  return response;
}

}  // namespace

grpc::ServerUnaryReactor* NewPutNotesCall(const NoteCallTools& tools, const std::string& tenant,
                                          Decoded<v1::PutNotesRequest> request,
                                          v1::PutNotesResponse* response) {
  const auto held = std::make_shared<HeldAnswer>(tools.calls);
  const auto call = LateAnswer<v1::PutNotesResponse>::Make(held, response);
  const auto end = [&call](const absl::Status& status) {
    call->Answer(status);
    return call.get();
  };
  v1::PutNotesRequest& message = *request.message;
  const absl::StatusOr<SessionId> session = SessionId::Parse(message.session_id(), "session_id");
  if (!session.ok()) return end(session.status());
  if (absl::Status status = CheckNotes(message); !status.ok()) return end(status);
  std::vector<store::NoteRow> notes;
  for (v1::Note& note : *message.mutable_notes()) {
    store::NoteRow& row = notes.emplace_back();
    row.key = std::move(*note.mutable_key());
    row.value = std::move(*note.mutable_value());
  }
  // The rows have the request's bytes, so it counts until the answer. Then the queue counts them.
  const auto counted = std::make_shared<Decoded<v1::PutNotesRequest>>(std::move(request));
  tools.sessions->PutNotes({tenant, *session}, std::move(notes),
                           [call, counted](const absl::Status& status) {
                             counted->message.reset();
                             if (!status.ok()) return call->Answer(status);
                             call->Answer(v1::PutNotesResponse());
                           });
  return call.get();
}

grpc::ServerUnaryReactor* NewFindNotesCall(const NoteCallTools& tools, const std::string& tenant,
                                           const v1::FindNotesRequest& request,
                                           v1::FindNotesResponse* response) {
  const auto held = std::make_shared<HeldAnswer>(tools.calls);
  const auto call = LateAnswer<v1::FindNotesResponse>::Make(held, response);
  if (absl::Status status = CheckKeys(request); !status.ok()) {
    call->Answer(status);
    return call.get();
  }
  const std::vector<std::string> keys(request.keys().begin(), request.keys().end());
  tools.sessions->Read<FoundNotes>(
      {tenant},
      [sessions = tools.sessions, tenant, keys] { return sessions->FindNotes(tenant, keys); },
      [call, held, memory = tools.memory](absl::StatusOr<FoundNotes> found) {
        if (call->answered()) return;
        call->Answer(AnswerOf(std::move(found), memory, held.get()));
      });
  return call.get();
}

}  // namespace longstream
