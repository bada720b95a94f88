// Conversations of sessions: which text a turn's messages add to what a session's tokens say.
//
// A session remembers the messages it was given and the text that the template made of them; what
// its tokens say after that text is the model's reply, and becomes a message of its own when more
// follow. A turn renders the whole conversation. Where the text of the session is how that begins,
// its tokens stand and the rest is added; where the template has changed earlier text (it leaves
// out old thoughts, say), the tokens that still agree stand, and the others are replaced.
#ifndef LONGSTREAM_SERVICE_CHAT_HISTORY_H_
#define LONGSTREAM_SERVICE_CHAT_HISTORY_H_

#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/chat/chat_files.h"
#include "service/chat/conversation.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream::chat {

// What a session remembers. Immutable once made: forks share it.
struct History {
  Conversation conversation;  // that gave `text`
  Text text;
  uint64_t position = 0;  // of the session, where `text` ends
  std::tm now = {};       // of the first turn: a date in the text does not change later
};

// What a turn brings.
struct Messages {
  // The messages to add; with `whole` all of the conversation. What is absent in `conversation`
  // (tools, documents, arguments) is as in the turn before, unless `whole`.
  Conversation conversation;
  bool whole = false;
  // Text of earlier turns must stay as it is.
  bool require_unchanged = false;
  // Special tokens spelled in messages become their ids.
  bool parse_special = false;
};

// What the turn does to the session.
struct Addition {
  uint64_t kept_tokens = 0;     // of the session; what comes after is replaced
  std::vector<int32_t> tokens;  // to add
  std::shared_ptr<const History> history;
};

// A session's tokens as they stand, with what it remembers of a conversation, if it does.
struct SessionText {
  std::span<const int32_t> tokens;
  std::shared_ptr<const History> history;
  std::span<const int32_t> end_ids;  // that end a reply and are no part of it
};

// FAILED_PRECONDITION: the session's tokens are no conversation to add to; with
// `require_unchanged`, earlier text changes (names the position). And errors of
// ChatTemplates::Choose, ApplyTemplate and Tokenizer::Encode.
absl::StatusOr<Addition> AddMessages(const ChatTemplates& templates, const Tokenizer& tokenizer,
                                     const SessionText& session, Messages messages);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_HISTORY_H_
