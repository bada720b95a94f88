// The marks between which models write their thoughts, before the answer proper.
#ifndef LONGSTREAM_SERVICE_CHAT_THOUGHTS_H_
#define LONGSTREAM_SERVICE_CHAT_THOUGHTS_H_

#include <string_view>

#include "service/chat/chat_files.h"
#include "service/chat/history.h"

namespace longstream::chat {

inline constexpr std::string_view kThoughtsBegin = "<think>";
inline constexpr std::string_view kThoughtsEnd = "</think>";

// Whether a template of the model names the end of thoughts. So the model was trained with these
// marks.
bool MarksThoughts(const ChatTemplates& templates);

// Whether an answer to this conversation begins within thoughts: the template has written their
// begin last, or the model continues a message that has begun them.
bool EndsInThoughts(const History& history);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_THOUGHTS_H_
