// Looks for the marks in templates and in rendered conversations.
#include "service/chat/thoughts.h"

#include <algorithm>
#include <string>

namespace longstream::chat {
namespace {

// The bytes of the last message's text.
size_t LastTextSize(const Conversation& conversation) {
  if (conversation.messages.empty() || !conversation.messages.back().is_dict()) return 0;
  const Value* const content = conversation.messages.back().dict().Find("content");
  return content != nullptr && content->is_text() ? content->text().size() : 0;
}

}  // namespace

bool MarksThoughts(const ChatTemplates& templates) {
  return std::ranges::any_of(templates.by_name, [](const auto& named) {
    return named.second.source().find(kThoughtsEnd) != std::string::npos;
  });
}

bool EndsInThoughts(const History& history) {
  const std::string& text = history.text.bytes();
  const size_t begin = text.rfind(kThoughtsBegin);
  if (begin == std::string::npos) return false;
  const size_t behind = begin + kThoughtsBegin.size();
  if (history.conversation.continue_final_message) {
    const bool in_last = begin + LastTextSize(history.conversation) >= text.size();
    return in_last && text.find(kThoughtsEnd, behind) == std::string::npos;
  }
  // A caller may write the mark too, at the end of a message.
  const auto& foreign = history.text.foreign();
  if (!foreign.empty() && foreign.back().end > begin) return false;
  return text.find_first_not_of(" \n\r\t", behind) == std::string::npos;
}

}  // namespace longstream::chat
