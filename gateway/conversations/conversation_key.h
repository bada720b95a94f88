// Names the beginning of a conversation by a digest.
#ifndef LONGSTREAM_GATEWAY_CONVERSATIONS_CONVERSATION_KEY_H_
#define LONGSTREAM_GATEWAY_CONVERSATIONS_CONVERSATION_KEY_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace longstream::gateway {

// SHA-256. Two conversations with the same key are equal, also if somebody wants them to collide.
using ConversationKey = std::array<uint8_t, 32>;

// The key of the conversation that is `before` and one more part, which has these texts. A chain of
// keys names each beginning of a conversation.
ConversationKey NextKey(const ConversationKey& before,
                        std::initializer_list<std::string_view> texts);

struct KeyHash {
  size_t operator()(const ConversationKey& key) const {
    size_t hash = 0;
    std::memcpy(&hash, key.data(), sizeof(hash));
    return hash;
  }
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_CONVERSATIONS_CONVERSATION_KEY_H_
