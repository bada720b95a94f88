#include "gateway/responses/stored_responses.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/json/json_object.h"

namespace longstream::gateway {
namespace {

// `messages`: without them.
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
  const bool is_only_here = stored.has_value() && stored->note_session_id.empty();
  if (is_only_here || !options_.has_notes) return stored;
  std::optional<FoundResponse> found = FindResponse(connection, id, owner);
  if (!found.has_value() || found->response.json().empty()) return std::nullopt;
  if (stored.has_value()) return stored;
  stored.emplace();
  stored->note_session_id = found->session_id;
  stored->json = found->response.json();
  if (with_conversation) stored->conversation = Read(connection, found->response, owner);
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
    if (!before.has_value()) {
      throw BadRequest("previous_response_id",
                       "a part of the conversation before the response is gone; send the"
                       " conversation as the input of a new response");
    }
    before->response.clear_json();
    bytes += before->response.ByteSizeLong();
    parts.push_back(std::move(before->response));
    if (bytes > options_.most_bytes || parts.size() > Conversation::kMostParts / 2) {
      throw BadRequest("previous_response_id",
                       absl::StrCat("the conversation has more than ", options_.most_bytes,
                                    " bytes, or too many responses"));
    }
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    conversation = std::make_shared<Conversation>(std::move(conversation), TakeMessages(&*part));
  }
  return conversation;
}

bool StoredResponses::Remove(client::Connection& connection, const std::string& id,
                             const std::string& owner) {
  if (options_.has_notes) {
    std::optional<FoundResponse> found = FindResponse(connection, id, owner);
    if (found.has_value() && !found->response.json().empty()) {
      // Later responses need its messages.
      found->response.clear_json();
      v1::PutNotesRequest put;
      put.set_session_id(found->session_id);
      *put.add_notes() = NoteOfResponse(id, owner, found->response);
      connection.PutNotes(put);
      log_.Remove(id, owner);
      return true;
    }
    const std::optional<ResponseLog::Stored> stored = log_.Find(id, owner);
    if (stored.has_value() && !stored->note_session_id.empty()) {
      log_.Remove(id, owner);
      return false;
    }
  }
  return log_.Remove(id, owner);
}

std::optional<v1::Note> StoredResponses::NoteOf(const std::string& id, const std::string& owner,
                                                const PreviousResponse& previous,
                                                const Conversation& conversation,
                                                const std::string& json,
                                                const std::string& session_id) const {
  if (!options_.has_notes) return std::nullopt;
  notes::Response response;
  response.set_json(json);
  // A session keeps its notes together, but may end before other sessions do.
  const bool goes_on = !previous.id.empty() && previous.note_session_id == session_id;
  if (goes_on) response.set_previous_response_id(previous.id);
  for (v1::Message& message : goes_on ? conversation.LastMessages() : conversation.Messages()) {
    *response.add_messages() = std::move(message);
  }
  v1::Note note = NoteOfResponse(id, owner, response);
  if (note.value().size() > kMostNoteBytes) return std::nullopt;
  return note;
}

}  // namespace longstream::gateway
