// Adds up the blocks of a request.
#include "service/engine/turn/turn.h"

namespace longstream {

uint64_t BytesOf(const TurnRequest& request) {
  constexpr size_t kInlineBytes = 15;  // a short string is stored in the std::string itself
  constexpr size_t kNodeHeader = 32;
  // The names of all members are here so that this does not compile if a member is added.
  const auto& [kind, prompt, kept_tokens, conversation, on_abort, priority, sampling, stop,
               max_tokens, log_probs, top_log_probs, deadline] = request;
  uint64_t bytes = sizeof(Turn) + BlockBytes(prompt.capacity() * sizeof(int32_t)) +
                   BlockBytes(stop.strings.capacity() * sizeof(std::string)) +
                   BlockBytes(stop.token_ids.capacity() * sizeof(int32_t));
  for (const std::string& text : stop.strings) {
    if (text.capacity() > kInlineBytes) bytes += BlockBytes(text.capacity() + 1);
  }
  return bytes + sampling.logit_bias.size() *
                     BlockBytes(kNodeHeader + sizeof(std::pair<const int32_t, float>));
}

}  // namespace longstream
