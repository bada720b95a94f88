// How an API writes the answer of a turn with messages.
#ifndef LONGSTREAM_GATEWAY_ANSWERS_ANSWER_WRITER_H_
#define LONGSTREAM_GATEWAY_ANSWERS_ANSWER_WRITER_H_

#include <cstdint>
#include <string>

#include "client/connection.h"
#include "gateway/answers/reply_reader.h"
#include "gateway/http/http_message.h"
#include "gateway/json/json_object.h"
#include "gateway/turns/turn_runner.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// Tokens of one or several turns.
struct Usage {
  uint64_t prompt_tokens = 0;  // of the whole conversation
  uint64_t cached_tokens = 0;  // of them: not computed in this turn
  uint64_t completion_tokens = 0;
  // Of completion_tokens: those of the pieces that begin or end within thoughts.
  uint64_t thought_tokens = 0;

  void Add(const client::Generation& generation);
};

// A turn that has ended.
struct EndedTurn {
  const client::Generation& generation;
  const Reply& reply;
  const Usage& usage;
  const Receipt& receipt;
};

// Each string is zero or more server-sent events. One thread uses a writer, for one answer.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // The model that answers. Called before all others, perhaps again.
  virtual void NameModel(const std::string& model) = 0;

  // A stream: its beginning, its pieces and its end. `started` comes again if a turn was resumed:
  // then Begin is not called again.
  virtual std::string Begin(const v1::TurnStarted& started) = 0;
  virtual std::string Piece(const v1::Delta& delta, const Reply& piece) = 0;
  virtual std::string End(const EndedTurn& turn, const Reply& last_piece) = 0;
  // A stream ends with an error.
  virtual std::string Error(const HttpAnswer& error) = 0;

  // An answer that is not a stream.
  virtual Json Whole(const EndedTurn& turn) = 0;
};

// The session, as clients of Longstream's own kind see it: {"session_id", "turn_id", "session"}.
Json ReceiptJson(const Receipt& receipt);
// "new", "continued" or "forked".
const char* TextOf(Receipt::How how);

// The message of the role "assistant" that a client repeats in its next request, perhaps without
// the thoughts.
v1::Message MessageOf(const Reply& reply);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANSWERS_ANSWER_WRITER_H_
