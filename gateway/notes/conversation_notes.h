// Sessions that other gateways know, or an earlier process of this one.
#ifndef LONGSTREAM_GATEWAY_NOTES_CONVERSATION_NOTES_H_
#define LONGSTREAM_GATEWAY_NOTES_CONVERSATION_NOTES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/connection.h"
#include "gateway/conversations/conversation_index.h"
#include "gateway/conversations/conversation_key.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// A note of the session for a conversation that it has read: the conversation with this key.
// `position`: of the session after the turn.
v1::Note NoteOfConversation(const ConversationKey& key, const std::string& turn_id,
                            uint64_t position);

// The beginning of a conversation, as ConversationIndex::Found has it, and its key.
struct Beginning {
  ConversationKey key{};
  size_t length = 0;
};
// Looks for notes of these beginnings, of which the longest comes first. Returns the session with
// the first one that has a note, not taken. Looks at no more than 64. Throws client::CallError.
std::optional<ConversationIndex::Found> FindConversation(client::Connection& connection,
                                                         const std::vector<Beginning>& beginnings);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_NOTES_CONVERSATION_NOTES_H_
