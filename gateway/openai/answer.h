// The answers of chat completions and completions, whole or as a stream of chunks.
#ifndef LONGSTREAM_GATEWAY_OPENAI_ANSWER_H_
#define LONGSTREAM_GATEWAY_OPENAI_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "client/connection.h"
#include "gateway/json/json_object.h"
#include "gateway/turns/turn_runner.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// Tokens of one or several turns.
struct Usage {
  uint64_t prompt_tokens = 0;  // of the whole conversation
  uint64_t cached_tokens = 0;  // of them: not computed in this turn
  uint64_t completion_tokens = 0;

  void Add(const client::Generation& generation);
};

// The fields that all answers of one request share.
struct AnswerHead {
  enum class Kind { kChat, kCompletion };

  Kind kind;
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
};

// "stop" or "length".
std::string FinishReason(v1::FinishReason reason);

// One choice of an answer that is not streamed.
Json Choice(const AnswerHead& head, size_t index, const client::Generation& generation,
            bool log_probs);
// The answer. `receipt`: nullptr if there is none.
Json WholeAnswer(const AnswerHead& head, Json choices, const Usage& usage, const Receipt* receipt);

// The chunks of a stream, each as a server-sent event. Not thread-safe.
class AnswerChunks {
 public:
  // `include_usage`: each chunk has a member "usage".
  AnswerChunks(AnswerHead head, bool include_usage, bool log_probs)
      : head_(std::move(head)), include_usage_(include_usage), log_probs_(log_probs) {}

  // The first chunk of a choice. Empty: this kind of answer has none.
  std::string Begin(size_t index);
  // Empty: there is nothing to send yet.
  std::string Piece(size_t index, const v1::Delta& delta);
  std::string End(size_t index, v1::FinishReason reason);
  // The chunk with the usage and the receipt (may be nullptr). Empty if nobody asked for it.
  std::string UsageChunk(const Usage& usage, const Receipt* receipt) const;

 private:
  std::string Chunk(Json choices) const;

  const AnswerHead head_;
  const bool include_usage_;
  const bool log_probs_;
  size_t offset_ = 0;  // of the next token in the text
};

// An event of a stream.
std::string Event(const Json& data);
inline constexpr char kLastEvent[] = "data: [DONE]\n\n";

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_ANSWER_H_
