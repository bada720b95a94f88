#include "gateway/notes/conversation_notes.h"

#include <algorithm>

#include "gateway_notes.pb.h"

namespace longstream::gateway {
namespace {

constexpr size_t kMostKeys = 64;  // of one call

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
  v1::FindNotesRequest request;
  const size_t count = std::min(beginnings.size(), kMostKeys);
  for (size_t i = 0; i < count; ++i) request.add_keys(KeyText(beginnings[i].key));
  const v1::FindNotesResponse response = connection.FindNotes(request);
  for (const v1::Note& note : response.notes()) {
    notes::Conversation conversation;
    if (!conversation.ParseFromString(note.value())) continue;  // it is not a gateway's
    for (size_t i = 0; i < count; ++i) {
      if (request.keys(static_cast<int>(i)) != note.key()) continue;
      ConversationIndex::Found found;
      found.session_id = note.session_id();
      found.turn_id = conversation.turn_id();
      found.length = beginnings[i].length;
      found.position = conversation.position();
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace longstream::gateway
