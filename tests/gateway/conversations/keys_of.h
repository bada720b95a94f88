// Conversations of letters.
#ifndef LONGSTREAM_TESTS_GATEWAY_CONVERSATIONS_KEYS_OF_H_
#define LONGSTREAM_TESTS_GATEWAY_CONVERSATIONS_KEYS_OF_H_

#include <string>
#include <vector>

#include "gateway/conversations/conversation_key.h"

namespace longstream::gateway {

// The keys of a conversation whose parts are the letters of `text`.
inline std::vector<ConversationKey> KeysOf(const std::string& text) {
  std::vector<ConversationKey> keys;
  for (const char& letter : text) {
    keys.push_back(NextKey(keys.empty() ? ConversationKey{} : keys.back(), {{&letter, 1}}));
  }
  return keys;
}

}  // namespace longstream::gateway

#endif  // LONGSTREAM_TESTS_GATEWAY_CONVERSATIONS_KEYS_OF_H_
