// The answers of POST /v1/completions.
#ifndef LONGSTREAM_GATEWAY_OPENAI_COMPLETION_WRITER_H_
#define LONGSTREAM_GATEWAY_OPENAI_COMPLETION_WRITER_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "gateway/answers/answer_writer.h"
#include "gateway/openai/answer_head.h"

namespace longstream::gateway {

// One answer has one or more choices for each prompt. Not thread-safe.
class CompletionWriter {
 public:
  // As for ChatWriter.
  CompletionWriter(AnswerHead head, bool include_usage, bool log_probs, size_t choices)
      : head_(std::move(head)),
        include_usage_(include_usage),
        log_probs_(log_probs),
        offsets_(choices),
        choices_(Json::array_t(choices)) {}

  // The model that answers.
  void NameModel(const std::string& model) { head_.model = model; }

  // A stream: the pieces of a choice, its end, and the end of the answer. Empty: there is nothing
  // to send yet.
  std::string Piece(size_t index, const v1::Delta& delta);
  std::string EndChoice(size_t index, v1::FinishReason reason) const;
  std::string End(const Usage& usage) const;

  // An answer that is not a stream.
  void AddChoice(size_t index, const client::Generation& generation);
  Json Whole(const Usage& usage) const;

 private:
  std::string Chunk(size_t index, std::string text, Json log_probs, Json finish_reason) const;

  AnswerHead head_;
  const bool include_usage_;
  const bool log_probs_;
  std::vector<size_t> offsets_;  // of each choice: of the next token in its text
  Json choices_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_COMPLETION_WRITER_H_
