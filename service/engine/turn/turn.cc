// Adds up the blocks of a request.
#include "service/engine/turn/turn.h"

namespace longstream {

uint64_t BytesOf(const TurnRequest& request) {
  // The names of all members are here so that this does not compile if a member is added.
  const auto& [kind, prompt, kept_tokens, conversation, on_abort, priority, sampling, stop, format,
               max_tokens, log_probs, top_log_probs, deadline, request_id, forced_tokens,
               outlives_reader, resume_window, logged_messages, own_session, logits, logits_from,
               followed, background, in_thoughts] = request;
  uint64_t bytes = sizeof(Turn) + BlockBytes(prompt) + BlockBytes(stop.strings) +
                   BlockBytes(stop.token_ids) + BlockBytes(request_id) + BlockBytes(forced_tokens);
  if (logged_messages != nullptr) bytes += BlockBytes(logged_messages->messages);
  for (const std::string& text : stop.strings) bytes += BlockBytes(text);
  return bytes + sampling.logit_bias.size() * NodeBytes<std::pair<const int32_t, float>>();
}

}  // namespace longstream
