// The chat templates of a model directory.
#ifndef LONGSTREAM_SERVICE_CHAT_CHAT_FILES_H_
#define LONGSTREAM_SERVICE_CHAT_CHAT_FILES_H_

#include <filesystem>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "service/chat/chat_template.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

struct ChatTemplates {
  bool empty() const { return by_name.empty(); }

  // Chooses the template for a conversation: "tool_use" if the conversation has tools and the model
  // has a template of that name, otherwise "default". FAILED_PRECONDITION: the model has no
  // template "default".
  absl::StatusOr<const ChatTemplate*> Choose(bool has_tools) const;

  // A template without a name is stored as "default".
  std::map<std::string, ChatTemplate> by_name;
  Dict special_tokens;  // such as {"bos_token": "<s>"}
};

// Reads the templates from chat_template.jinja and chat_templates/*.jinja. If neither exists, reads
// them from the key chat_template of tokenizer_config.json, which holds one text or a list of named
// texts. Reads the special tokens from tokenizer_config.json and special_tokens_map.json. A missing
// file is not an error. Of a GGUF model (service/tokenizer/files/gguf.h), reads the metadata
// instead: tokenizer.chat_template, tokenizer.chat_template.NAME and the ids of special tokens.
//
// INVALID_ARGUMENT: a file is damaged, or does not hold a template (ChatTemplate::Parse).
// UNIMPLEMENTED: a template uses a construct that we do not support.
absl::StatusOr<ChatTemplates> ReadChatTemplates(const std::filesystem::path& model_dir);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_CHAT_FILES_H_
