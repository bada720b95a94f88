// The answer of a turn as far as it was generated, for readers that come later.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_ANSWER_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "service/engine/turn/turn_events.h"

namespace longstream {

// Keeps each token with the text that its delta had. So a reader that comes later gets deltas that
// end at the same places in the text. Not thread-safe.
class Answer {
 public:
  void Start(const StartedEvent& started) { started_ = started; }
  // Absent until the turn was admitted.
  const std::optional<StartedEvent>& started() const { return started_; }

  // Adds a delta of the turn. A delta without tokens must come before all tokens.
  void Add(const DeltaEvent& delta);

  // Drops the tokens behind this position of the session.
  void Truncate(uint64_t position);

  const std::vector<int32_t>& tokens() const { return tokens_; }

  // The delta without tokens. Absent: the turn has none.
  const std::optional<DeltaEvent>& lead() const { return lead_; }
  // The delta of tokens()[index] alone. REQUIRES: index < tokens().size().
  DeltaEvent DeltaOf(size_t index) const;

  // The memory that the answer holds.
  uint64_t bytes() const;

 private:
  std::optional<StartedEvent> started_;
  std::optional<DeltaEvent> lead_;
  std::vector<int32_t> tokens_;
  std::string text_;                     // of all tokens
  std::vector<uint64_t> text_ends_;      // per token: where its text ends in text_
  std::vector<TokenLogProb> log_probs_;  // one per token, or none
  uint64_t log_prob_bytes_ = 0;          // of the lists `top`
  uint64_t end_position_ = 0;            // the session's position after the last token
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_ANSWER_H_
