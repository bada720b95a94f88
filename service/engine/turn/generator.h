// For each token that a generating turn draws: decides the text that it adds and whether it is the
// last token.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_GENERATOR_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_GENERATOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "backends/api/backend.h"
#include "service/engine/logits/format_guide.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_events.h"
#include "service/models/served_model.h"
#include "service/tokenizer/stream/stream_decoder.h"

namespace longstream {

// The state of one turn from its first drawn token to its last. Used by one thread.
class Generator {
 public:
  // `history`: the tokens of the session, including the prompt of the turn. `generated` says which
  // of them the model drew. `incomplete`: the first bytes of a character that the turn may complete
  // (TextTail). REQUIRES: StopMatcher::Create accepts the request's stop strings.
  Generator(const ServedModel& model, const TurnRequest& request,
            const std::vector<int32_t>& history, const std::vector<bool>& generated,
            std::string incomplete);

  // Whether a first token can be drawn. FAILED_PRECONDITION, INVALID_ARGUMENT: the request's
  // format allows none, or is too ambiguous (FormatGuide). Nothing else may be called then.
  const absl::Status& status() const { return status_; }

  // How to draw the next token. With `ahead` 1: how to draw the token after it, while the next
  // token is not known yet (see CanLookAhead). Valid until the next call.
  const ls_sampling* Sampling(uint64_t ahead);

  // Whether a token can be drawn before the previous token is taken in. This is so if no penalty
  // counts earlier tokens, if no format depends on them, and if the previous token is not one that
  // the client has received.
  bool CanLookAhead() const {
    return !request_.sampling.UsesHistory() && !guide_.has_value() && !AwaitsForced();
  }
  // Whether the next token is one that the client has received before.
  bool AwaitsForced() const { return drawn_ < request_.forced_tokens.size(); }
  // Whether the next token is known, whatever is drawn: the client has received it, or the turn
  // follows another one.
  bool NextIsKnown() const { return follows() || AwaitsForced(); }
  // The token behind the next `ahead` ones. REQUIRES: NextIsKnown(), and MayDraw(ahead); `ahead` is
  // 0 or the turn follows another one.
  int32_t KnownToken(uint64_t ahead) const {
    return follows() ? request_.followed->At(drawn_ + ahead) : request_.forced_tokens[drawn_];
  }
  bool follows() const { return request_.followed != nullptr; }
  // Whether the token behind the next `ahead` ones may be drawn now. False: the turn that is
  // followed has not drawn it yet.
  bool MayDraw(uint64_t ahead) const {
    return !follows() || request_.followed->Has(drawn_ + ahead);
  }
  // Whether the turn that is followed has ended with the last token.
  bool HasFollowedAll() const { return follows() && request_.followed->EndAt(drawn_); }
  // Whether the turn ends after the next token, for every possible next token. `position`: the
  // position of the session after that token.
  bool NextIsLast(uint64_t position) const {
    return Exhausted(drawn_ + 1, position) != FinishReason::kNone;
  }

  struct Step {
    DeltaEvent delta;  // its log_probs are empty
    FinishReason reason = FinishReason::kNone;
    std::string stop_string;
    uint64_t kept_text_bytes = 0;      // as TurnEnd's
    std::string incomplete_character;  // as TurnEnd's
    // Not OK: the turn cannot go on, because of its format. The other fields are not valid.
    absl::Status status;
  };
  // The bytes of text that all deltas so far have.
  uint64_t text_bytes() const { return text_bytes_; }

  // Takes in a drawn token. `position`: the position of the session after that token.
  Step Take(int32_t token, uint64_t position);

 private:
  void Count(int32_t token, bool counts_as_generated);
  // Why no token may follow after `drawn` tokens, at `position`. kNone: one may follow.
  FinishReason Exhausted(uint64_t drawn, uint64_t position) const;
  bool IsStopToken(int32_t token) const;
  // The format follows the token. Sets the step's reason if the format is complete, and nothing can
  // follow.
  absl::Status Guide(int32_t token, bool was_forced, FinishReason* reason);

  const TurnRequest& request_;
  const Tokenizer& tokenizer_;
  const uint64_t context_limit_;

  ls_sampling sampling_{};
  std::vector<ls_logit_bias> bias_;        // the biases of the request
  std::vector<ls_logit_bias> early_bias_;  // the same biases, with every stop token banned
  std::vector<ls_token_count> counts_;     // one per distinct token; empty if no penalty needs them
  std::unordered_map<int32_t, size_t> count_index_;  // token -> its index in counts_

  std::optional<FormatGuide> guide_;  // absent: the answer may be any text
  absl::Status status_;

  uint64_t drawn_ = 0;
  uint64_t text_bytes_ = 0;
  StreamDecoder decoder_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_GENERATOR_H_
