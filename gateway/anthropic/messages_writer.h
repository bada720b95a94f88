// The answers of POST /v1/messages, Anthropic's API.
#ifndef LONGSTREAM_GATEWAY_ANTHROPIC_MESSAGES_WRITER_H_
#define LONGSTREAM_GATEWAY_ANTHROPIC_MESSAGES_WRITER_H_

#include <cstddef>
#include <string>
#include <utility>

#include "gateway/answers/answer_writer.h"

namespace longstream::gateway {

class MessagesWriter final : public AnswerWriter {
 public:
  MessagesWriter(std::string id, std::string model)
      : id_(std::move(id)), model_(std::move(model)) {}

  void NameModel(const std::string& model) override { model_ = model; }
  std::string Begin(const v1::TurnStarted& started) override;
  std::string Piece(const v1::Delta& delta, const Reply& piece) override;
  std::string End(const EndedTurn& turn, const Reply& last_piece) override;
  std::string Error(const HttpAnswer& error) override;
  Json Whole(const EndedTurn& turn) override;

 private:
  enum class Open { kNone, kThoughts, kText };

  // The events of a piece. Thoughts, texts and calls are blocks, one after the other.
  std::string Blocks(const Reply& piece);
  // More of a block of thoughts or of text, which begins if it is not open.
  std::string Continue(Open kind, const std::string& text);
  std::string EndBlock();

  const std::string id_;
  std::string model_;
  size_t blocks_ = 0;        // that have begun
  Open open_ = Open::kNone;  // the last block goes on
};

// Gives an error the form of this API: {"type": "error", "error": {"type", "message"}}.
void MessagesError(HttpAnswer* answer);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANTHROPIC_MESSAGES_WRITER_H_
