// Takes each token that a generating turn draws: the text it adds, and whether it is the last.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_GENERATOR_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_GENERATOR_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/api/backend.h"
#include "service/engine/turn/turn.h"
#include "service/engine/turn/turn_events.h"
#include "service/models/served_model.h"
#include "service/tokenizer/stream/stream_decoder.h"

namespace longstream {

// One turn's state from its first draw to its last. Used by one thread.
class Generator {
 public:
  // `history` is the session's with the turn's prompt; `generated` says which of its tokens the
  // model drew. The request's stop strings were checked (StopMatcher::Create succeeds).
  Generator(const ServedModel& model, const TurnRequest& request,
            const std::vector<int32_t>& history, const std::vector<bool>& generated);

  // How to draw the next token, or with `ahead` 1 the one after it, while the next one is not known
  // (CanLookAhead). Valid until the next call.
  const ls_sampling* Sampling(uint64_t ahead);

  // Whether draws depend on earlier draws through the model alone.
  bool CanLookAhead() const { return !request_.sampling.UsesHistory(); }
  // Whether the next token is the last, whatever it is; `position` is the session's with it.
  bool NextIsLast(uint64_t position) const {
    return Exhausted(drawn_ + 1, position) != FinishReason::kNone;
  }

  struct Step {
    DeltaEvent delta;  // without log-probabilities
    FinishReason reason = FinishReason::kNone;
    std::string stop_string;
  };
  // Takes in a token; `position` is the session's with it.
  Step Take(int32_t token, uint64_t position);

 private:
  void Count(int32_t token, bool generated);
  // Why no token follows the `drawn`th one, at `position`; kNone: one may follow.
  FinishReason Exhausted(uint64_t drawn, uint64_t position) const;
  bool IsStopToken(int32_t token) const;

  const TurnRequest& request_;
  const uint64_t context_limit_;

  ls_sampling sampling_{};
  std::vector<ls_logit_bias> bias_;        // the request's
  std::vector<ls_logit_bias> early_bias_;  // the same with every stop token banned
  std::vector<ls_token_count> counts_;     // of distinct tokens, only where a penalty needs them
  std::unordered_map<int32_t, size_t> count_index_;  // token to its place in counts_

  uint64_t drawn_ = 0;
  StreamDecoder decoder_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_GENERATOR_H_
