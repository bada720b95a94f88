// Conversations of sessions: the text that a turn's messages add to a session's tokens.
//
// A session remembers its messages and the text that the template made of them. The text of its
// tokens after that is the model's reply; it becomes a message of its own when more messages
// follow. A turn renders the whole conversation. If the result begins with the session's text, the
// session's tokens stay and the rest is added. If the template has changed earlier text (it leaves
// out old thoughts, say), the tokens that still agree stay and the others are replaced.
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

// A session's memory of its conversation. Immutable once made: forks share it.
struct History {
  Conversation conversation;  // that gave `text`
  Text text;
  uint64_t position = 0;  // of the session, where `text` ends
  std::tm now = {};       // of the first turn: a date in the text does not change later
};

// A turn's messages.
struct Messages {
  // The messages to add; with `whole` the whole conversation. Absent tools, documents and arguments
  // are as in the turn before, unless `whole`.
  Conversation conversation;
  bool whole = false;
  // Text of earlier turns must stay as it is.
  bool require_unchanged = false;
  // Special tokens spelled in messages become their ids.
  bool parse_special = false;
};

// The turn's change of the session.
struct Addition {
  uint64_t kept_tokens = 0;     // of the session; what comes after is replaced
  std::vector<int32_t> tokens;  // to add
  std::shared_ptr<const History> history;
};

// A session's present tokens, and its conversation if it has one.
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
