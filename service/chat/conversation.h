// From a conversation to the variables of a template, as apply_chat_template of Hugging Face's
// transformers does it.
#ifndef LONGSTREAM_SERVICE_CHAT_CONVERSATION_H_
#define LONGSTREAM_SERVICE_CHAT_CONVERSATION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "service/chat/chat_template.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

struct Conversation {
  std::vector<Value> messages;  // dicts; members that are None count as left out
  Value tools;                  // a list of dicts, or None
  Value documents;              // likewise
  Dict arguments;               // further variables
  bool add_generation_prompt = false;
  // The text ends with the last message's text, and the model goes on with it.
  bool continue_final_message = false;
};

// `special_tokens`: bos_token and its like, unless the arguments say otherwise. INVALID_ARGUMENT:
// there are no messages, a message is no dict, or there is no message to continue; and errors of
// ChatTemplate::Render.
absl::StatusOr<Text> ApplyTemplate(const ChatTemplate& chat_template, const Dict& special_tokens,
                                   const Conversation& conversation, const RenderOptions& options);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_CONVERSATION_H_
