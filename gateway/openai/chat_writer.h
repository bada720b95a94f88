// The answers of POST /v1/chat/completions.
#ifndef LONGSTREAM_GATEWAY_OPENAI_CHAT_WRITER_H_
#define LONGSTREAM_GATEWAY_OPENAI_CHAT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "gateway/answers/answer_writer.h"
#include "gateway/openai/answer_head.h"

namespace longstream::gateway {

class ChatWriter final : public AnswerWriter {
 public:
  // `include_usage`: a last chunk of the stream has the usage. `log_probs`: the request asks for
  // them.
  ChatWriter(AnswerHead head, bool include_usage, bool log_probs)
      : head_(std::move(head)), include_usage_(include_usage), log_probs_(log_probs) {}

  void NameModel(const std::string& model) override { head_.model = model; }
  std::string Begin(const v1::TurnStarted& started) override;
  std::string Piece(const v1::Delta& delta, const Reply& piece) override;
  std::string End(const EndedTurn& turn, const Reply& last_piece) override;
  std::string Error(const HttpAnswer& error) override;
  Json Whole(const EndedTurn& turn) override;

 private:
  std::string Chunk(Json delta, Json log_probs, Json finish_reason) const;
  // The members of a message that the piece adds.
  Json DeltaOf(const Reply& piece);

  AnswerHead head_;
  const bool include_usage_;
  const bool log_probs_;
  size_t calls_ = 0;  // that were sent
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_CHAT_WRITER_H_
