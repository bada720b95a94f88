// The answers of POST /v1/chat/completions.
#ifndef LONGSTREAM_GATEWAY_OPENAI_CHAT_WRITER_H_
#define LONGSTREAM_GATEWAY_OPENAI_CHAT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gateway/answers/answer_writer.h"
#include "gateway/openai/answer_head.h"

namespace longstream::gateway {

// Writes one choice of an answer: a whole one as the element of `choices`, a stream without its
// last events.
class ChatChoice final : public AnswerWriter {
 public:
  // `has_usage`: chunks have a member `usage`. `log_probs`: the request asks for them.
  ChatChoice(size_t index, AnswerHead head, bool has_usage, bool log_probs)
      : index_(index), head_(std::move(head)), has_usage_(has_usage), log_probs_(log_probs) {}

  void NameModel(const std::string& model) override { head_.model = model; }
  std::string Begin(const v1::TurnStarted& started) override;
  std::string Piece(const v1::Delta& delta, const Reply& piece) override;
  std::string End(const EndedTurn& turn, const Reply& last_piece) override;
  std::string Error(const HttpAnswer& error) override;
  Json Whole(const EndedTurn& turn) override;

  // Known when the choice has ended.
  const AnswerHead& head() const { return head_; }
  const Usage& usage() const { return usage_; }
  const Json& receipt() const { return receipt_; }

 private:
  std::string Chunk(Json delta, Json log_probs, Json finish_reason) const;
  // The members of a message that the piece adds.
  Json DeltaOf(const Reply& piece);
  void Note(const EndedTurn& turn);

  const size_t index_;
  AnswerHead head_;
  const bool has_usage_;
  const bool log_probs_;
  size_t calls_ = 0;  // that were sent
  Usage usage_;
  Json receipt_;
};

// The answer to one request, whose choices several threads may write at once.
class ChatWriter {
 public:
  // `include_usage`: a last chunk of the stream has the usage.
  ChatWriter(const AnswerHead& head, bool include_usage, bool log_probs, size_t choices);

  ChatChoice& choice(size_t index) { return choices_[index]; }

  // When all choices have ended: the last events of a stream.
  std::string End() const;
  // An answer that is not a stream. `choices`: an array of what ChatChoice::Whole has returned.
  Json Whole(Json choices) const;

 private:
  // The usage, and Longstream's own member.
  void AddSums(Json* answer) const;

  const bool include_usage_;
  std::vector<ChatChoice> choices_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_CHAT_WRITER_H_
