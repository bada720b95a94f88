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

  // The template for a conversation: "tool_use" if there are tools and it exists, else "default".
  // FAILED_PRECONDITION: the model does not have it.
  absl::StatusOr<const ChatTemplate*> Choose(bool has_tools) const;

  std::map<std::string, ChatTemplate> by_name;  // a single one is "default"
  Dict special_tokens;                          // "bos_token": "<s>" and its like
};

// Reads chat_template.jinja and chat_templates/*.jinja; if there is neither, chat_template of
// tokenizer_config.json, a text or a list of named ones. Special tokens come from
// tokenizer_config.json and special_tokens_map.json. Missing files give nothing.
//
// INVALID_ARGUMENT: a file is damaged, or is no template (ChatTemplate::Parse). UNIMPLEMENTED: a
// template uses a construct that we do not support.
absl::StatusOr<ChatTemplates> ReadChatTemplates(const std::filesystem::path& model_dir);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_CHAT_FILES_H_
