// The keys of a conversation's beginnings.
#ifndef LONGSTREAM_GATEWAY_TURNS_MESSAGE_KEYS_H_
#define LONGSTREAM_GATEWAY_TURNS_MESSAGE_KEYS_H_

#include <vector>

#include "gateway/conversations/conversation_key.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// The key of a conversation with one more message.
ConversationKey KeyAfter(const ConversationKey& before, const v1::Message& message);

// The keys of all beginnings of a conversation, each of which ends with a message. `beginning`: of
// everything but the messages.
std::vector<ConversationKey> KeysOf(const ConversationKey& beginning, const v1::Messages& messages);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_TURNS_MESSAGE_KEYS_H_
