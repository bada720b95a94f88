#include "gateway/notes/conversation_notes.h"

#include <algorithm>

#include "gateway_notes.pb.h"

namespace longstream::gateway {
namespace {

constexpr size_t kMostKeys = 64;

std::string KeyText(const ConversationKey& key) {
  std::string text = "conversation ";
  text.append(key.begin(), key.end());
  return text;
}

}  // namespace

v1::Note NoteOfConversation(const ConversationKey& key, const std::string& turn_id,
                            uint64_t position) {
  notes::Conversation conversation;
  conversation.set_turn_id(turn_id);
  conversation.set_position(position);
  v1::Note note;
  note.set_key(KeyText(key));
  note.set_value(conversation.SerializeAsString());
  return note;
}

std::optional<ConversationIndex::Found> FindConversation(client::Connection& connection,
                                                         const std::vector<Beginning>& beginnings) {
  // Nearly always the last answer is known. The server asks its store for one key after the other.
  constexpr size_t kFirst = 2;
  const size_t count = std::min(beginnings.size(), kMostKeys);
  size_t begin = 0;
  for (const size_t end : {std::min(count, kFirst), count}) {
    v1::FindNotesRequest request;
    for (size_t i = begin; i < end; ++i) request.add_keys(KeyText(beginnings[i].key));
    if (request.keys_size() == 0) break;
    const v1::FindNotesResponse response = connection.FindNotes(request);
    for (const v1::Note& note : response.notes()) {
      notes::Conversation conversation;
      if (!conversation.ParseFromString(note.value())) continue;  // it is not a gateway's
      const auto key = std::find(request.keys().begin(), request.keys().end(), note.key());
      if (key == request.keys().end()) continue;
      ConversationIndex::Found found;
      found.session_id = note.session_id();
      found.turn_id = conversation.turn_id();
      found.length = beginnings[begin + static_cast<size_t>(key - request.keys().begin())].length;
      found.position = conversation.position();
      return found;
    }
    begin = end;
  }
  return std::nullopt;
}

}  // namespace longstream::gateway
