// Turns a conversation into the variables of a template, in the same way as the function
// apply_chat_template of Hugging Face's transformers.
#ifndef LONGSTREAM_SERVICE_CHAT_CONVERSATION_H_
#define LONGSTREAM_SERVICE_CHAT_CONVERSATION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "service/chat/chat_template.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

struct Conversation {
  std::vector<Value> messages;  // one dict per message; a member that is None counts as absent
  Value tools;                  // a list of dicts, or None
  Value documents;              // a list of dicts, or None
  Dict arguments;               // further variables of the template
  bool add_generation_prompt = false;
  // True: the rendered text ends within the last message, and the model continues that message.
  bool continue_final_message = false;
};

// Renders the conversation. `special_tokens` are variables too, such as bos_token; the
// conversation's arguments replace variables of the same name. INVALID_ARGUMENT: the conversation
// has no messages, a message is not a dict, or the last message has no text to continue. Also
// returns the errors of ChatTemplate::Render.
absl::StatusOr<Text> ApplyTemplate(const ChatTemplate& chat_template, const Dict& special_tokens,
                                   const Conversation& conversation, const RenderOptions& options);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_CONVERSATION_H_
