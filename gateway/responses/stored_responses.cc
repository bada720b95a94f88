// A chain of notes has the messages of a conversation. Now and then a note has all of them, so that
// no chain is long.
#include "gateway/responses/stored_responses.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/json/json_object.h"

namespace longstream::gateway {
namespace {

// Before a note with the whole conversation, if that is not too large.
constexpr uint32_t kMostEarlierNotes = 32;

// `response`: without them then.
std::vector<v1::Message> TakeMessages(notes::Response* response) {
  std::vector<v1::Message> messages;
  for (v1::Message& message : *response->mutable_messages()) {
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

std::optional<ResponseLog::Stored> StoredResponses::Find(client::Connection& connection,
                                                         const std::string& id,
                                                         const std::string& owner,
                                                         bool with_conversation) {
  std::optional<ResponseLog::Stored> stored = log_.Find(id, owner);
  const bool is_only_here = stored.has_value() && stored->note.session_id.empty();
  if (is_only_here || !options_.has_notes) return stored;
  const std::optional<FoundResponse> found = FindResponse(connection, id, owner);
  if (!found.has_value() || found->deleted()) return std::nullopt;
  if (stored.has_value()) return stored;
  stored.emplace();
  stored->note = {found->session_id, found->response.earlier_notes()};
  stored->json = found->response.json();
  if (found->response.has_begun()) {
    stored->running = true;
    stored->begun = std::make_shared<notes::Begun>(found->response.begun());
    stored->beat = found->beat;
  }
  if (!with_conversation || stored->running || found->response.failed()) return stored;
  const absl::MutexLock lock(&reading_);
  if (auto read = log_.Find(id, owner); read.has_value()) return read;
  stored->conversation = Read(connection, found->response, owner);
  if (stored->conversation == nullptr) return std::nullopt;
  log_.Add(id, owner, *stored);  // for the next request that goes on behind it
  return stored;
}

Conversation::Ptr StoredResponses::Read(client::Connection& connection, const notes::Response& last,
                                        const std::string& owner) const {
  std::vector<notes::Response> parts{last};
  Conversation::Ptr conversation;
  uint64_t bytes = last.ByteSizeLong();
  while (!parts.back().previous_response_id().empty()) {
    const std::string& id = parts.back().previous_response_id();
    const std::optional<ResponseLog::Stored> known = log_.Find(id, owner);
    if (known.has_value() && known->conversation != nullptr) {
      conversation = known->conversation;
      break;
    }
    std::optional<FoundResponse> before = FindResponse(connection, id, owner);
    if (!before.has_value() || parts.size() >= Conversation::kMostParts / 2) return nullptr;
    before->response.clear_json();
    bytes += before->response.ByteSizeLong();
    if (bytes > options_.most_bytes) {
      throw BadRequest("previous_response_id", absl::StrCat("the conversation has more than ",
                                                            options_.most_bytes, " bytes"));
    }
    parts.push_back(std::move(before->response));
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    conversation = std::make_shared<Conversation>(std::move(conversation), TakeMessages(&*part));
  }
  return conversation;
}

bool StoredResponses::Remove(client::Connection& connection, const std::string& id,
                             const std::string& owner) {
  const std::optional<ResponseLog::Stored> stored = log_.Find(id, owner);
  // One in the background may have another note than that of its end.
  const bool is_only_here =
      stored.has_value() && stored->note.session_id.empty() && stored->events == nullptr;
  if (is_only_here || !options_.has_notes) return log_.Remove(id, owner);
  std::optional<FoundResponse> found = FindResponse(connection, id, owner);
  const bool is_noted = found.has_value() && !found->deleted();
  if (is_noted) {
    const std::string turn_id = found->response.begun().turn_id();
    // Later responses need its messages.
    found->response.clear_json();
    found->response.clear_begun();
    found->response.set_deleted(true);
    v1::PutNotesRequest put;
    put.set_session_id(found->session_id);
    *put.add_notes() = NoteOfResponse(id, owner, found->response);
    connection.PutNotes(put);
    if (!turn_id.empty()) {
      try {
        connection.CancelTurn(found->session_id, turn_id);
      } catch (const client::CallError&) {  // it has ended
      }
    }
  }
  const bool was_here = log_.Remove(id, owner);
  return is_noted || (was_here && !found.has_value());
}

bool StoredResponses::WasDeleted(client::Connection& connection, const std::string& id,
                                 const std::string& owner) const {
  if (!options_.has_notes) return false;
  const std::optional<FoundResponse> found = FindResponse(connection, id, owner);
  return found.has_value() && found->deleted();
}

std::optional<v1::Note> StoredResponses::NoteOfBegun(const std::string& id,
                                                     const std::string& owner,
                                                     const std::string& json,
                                                     notes::Begun begun) const {
  if (!options_.has_notes) return std::nullopt;
  notes::Response response;
  response.set_json(json);
  *response.mutable_begun() = std::move(begun);
  v1::Note note = NoteOfResponse(id, owner, response);
  if (note.value().size() > kMostNoteBytes) return std::nullopt;
  return note;
}

v1::Note StoredResponses::NoteOfFailed(const std::string& id, const std::string& owner,
                                       const std::string& json) {
  notes::Response response;
  response.set_json(json);
  response.set_failed(true);
  return NoteOfResponse(id, owner, response);
}

std::optional<StoredResponses::Made> StoredResponses::NoteOf(const std::string& id,
                                                             const std::string& owner,
                                                             const PreviousResponse& previous,
                                                             const Conversation& conversation,
                                                             const std::string& json,
                                                             const std::string& session_id) const {
  if (!options_.has_notes) return std::nullopt;
  const auto make = [&](bool goes_on) -> std::optional<Made> {
    // In memory, messages take a multiple of what they take in a note.
    if (!goes_on && conversation.bytes() > 8 * kMostNoteBytes) return std::nullopt;
    notes::Response response;
    response.set_json(json);
    if (goes_on) {
      response.set_previous_response_id(previous.id);
      response.set_earlier_notes(previous.note.earlier_notes + 1);
    }
    for (v1::Message& message : goes_on ? conversation.LastMessages() : conversation.Messages()) {
      *response.add_messages() = std::move(message);
    }
    const uint32_t earlier_notes = response.earlier_notes();
    v1::Note note = NoteOfResponse(id, owner, response);
    if (note.value().size() > kMostNoteBytes) return std::nullopt;
    return Made{std::move(note), {session_id, earlier_notes}};
  };
  // A session keeps its notes together, but may end before other sessions do.
  const bool can_go_on = !previous.id.empty() && previous.note.session_id == session_id;
  const bool goes_on = can_go_on && previous.note.earlier_notes < kMostEarlierNotes;
  std::optional<Made> made = make(goes_on);
  if (!made.has_value() && can_go_on && !goes_on) made = make(true);  // it is too large as a whole
  return made;
}

}  // namespace longstream::gateway
