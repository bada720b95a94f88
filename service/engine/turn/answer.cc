// Keeps the tokens and the text of an answer.
#include "service/engine/turn/answer.h"

#include <utility>

#include "service/host_memory/host_memory.h"

namespace longstream {

void Answer::Add(const DeltaEvent& delta) {
  if (delta.tokens.empty()) {
    lead_ = delta;
    return;
  }
  // If a delta has several tokens, its text is complete only after the last one.
  for (const int32_t token : delta.tokens) {
    tokens_.push_back(token);
    text_ends_.push_back(text_.size());
  }
  text_ += delta.text;
  text_ends_.back() = text_.size();
  for (const TokenLogProb& log_prob : delta.log_probs) {
    log_probs_.push_back(log_prob);
    log_prob_bytes_ += BlockBytes(log_probs_.back().top);
  }
  end_position_ = delta.position;
}

void Answer::Truncate(uint64_t position) {
  while (!tokens_.empty() && end_position_ > position) {
    --end_position_;
    tokens_.pop_back();
    text_ends_.pop_back();
    if (!log_probs_.empty()) {
      log_prob_bytes_ -= BlockBytes(log_probs_.back().top);
      log_probs_.pop_back();
    }
  }
  text_.resize(text_ends_.empty() ? 0 : text_ends_.back());
}

DeltaEvent Answer::DeltaOf(size_t index) const {
  DeltaEvent delta;
  const uint64_t begin = index == 0 ? 0 : text_ends_[index - 1];
  delta.text = text_.substr(begin, text_ends_[index] - begin);
  delta.tokens = {tokens_[index]};
  delta.position = end_position_ - (tokens_.size() - 1 - index);
  if (!log_probs_.empty()) delta.log_probs = {log_probs_[index]};
  return delta;
}

uint64_t Answer::bytes() const {
  uint64_t bytes = BlockBytes(sizeof(Answer)) + BlockBytes(tokens_) + BlockBytes(text_) +
                   BlockBytes(text_ends_) + BlockBytes(log_probs_) + log_prob_bytes_;
  if (lead_.has_value()) bytes += BlockBytes(lead_->text);
  return bytes;
}

}  // namespace longstream
