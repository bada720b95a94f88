// Computes the tokens that the messages of a turn add to a session.
//
// A session remembers its messages and the text that the template rendered from them. The tokens
// after that text are the model's reply. The reply becomes a message when more messages follow. A
// turn renders the whole conversation. If the result begins with the session's text, the session
// keeps its tokens and the turn adds the rest. Some templates change earlier text; for example,
// they leave out old thoughts. Then the session keeps the tokens before the first difference, and
// the turn replaces the others.
#ifndef LONGSTREAM_SERVICE_CHAT_HISTORY_H_
#define LONGSTREAM_SERVICE_CHAT_HISTORY_H_

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/chat/chat_files.h"
#include "service/chat/conversation.h"
#include "service/host_memory/host_memory.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream::chat {

// The conversation that a session remembers. It never changes, so forks share it.
struct History {
  Conversation conversation;  // `text` is this conversation, rendered
  Text text;
  uint64_t position = 0;  // the number of tokens of the session at the end of `text`
  std::tm now = {};       // the time of the first turn, so that a date in the text stays the same
  // The memory of the history with all its values, also those that other histories share. The
  // charge counts the part that no other history shares (ChargeHistory).
  uint64_t bytes = 0;
  HostCharge charge;
};

// The messages of a turn.
struct Messages {
  // The messages to add, or the whole conversation if `whole` is set. Unless `whole` is set, tools,
  // documents and arguments that are absent keep their values from the previous turn.
  Conversation conversation;
  bool whole = false;
  // True: refuse the turn if the template changes the text of earlier turns.
  bool require_unchanged = false;
  // True: special tokens that the messages spell out become their ids.
  bool parse_special = false;
};

// The change that a turn makes to its session.
struct Addition {
  uint64_t kept_tokens = 0;     // how many tokens of the session stay; the others are replaced
  std::vector<int32_t> tokens;  // the tokens to add
  std::shared_ptr<const History> history;
};

// The present tokens of a session, and its conversation if it has one.
struct SessionText {
  std::span<const int32_t> tokens;
  std::shared_ptr<const History> history;
  std::span<const int32_t> end_ids;   // end ids: they end a reply and are not part of its text
  HostMemory* host_memory = nullptr;  // counts the new history; nullptr: nothing counts it
  // The time that the template sees if the session has no conversation. Absent: the present.
  std::optional<std::tm> now = std::nullopt;
};

// FAILED_PRECONDITION: the session's tokens are not a conversation; or `require_unchanged` is set
// and the template changes earlier text (the message names the position). Also returns the errors
// of ChatTemplates::Choose, ApplyTemplate, ChargeHistory and Tokenizer::Encode.
absl::StatusOr<Addition> AddMessages(const ChatTemplates& templates, const Tokenizer& tokenizer,
                                     const SessionText& session, Messages messages);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_HISTORY_H_
