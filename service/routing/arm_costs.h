// The costs of a model on this machine: its times by depth, and the bytes of a session by length.
#ifndef LONGSTREAM_SERVICE_ROUTING_ARM_COSTS_H_
#define LONGSTREAM_SERVICE_ROUTING_ARM_COSTS_H_

#include <cstdint>

#include "service/routing/cost_line.h"

namespace longstream {

// The times are those of one stream on a machine that does nothing else. The bytes are exact; the
// backend gives them.
struct ArmCosts {
  // The latest prompt tokens, and the deepest decode, that were measured are at this depth. Beyond
  // it the lines go on.
  uint64_t measured_depth = 0;
  CostLine prefill;  // of one token of a prompt
  CostLine decode;   // of one generated token
  uint64_t context_limit = 0;
  uint64_t kv_bytes_per_token = 0;
  uint64_t page_tokens = 0;    // 0: the model has no pages
  uint64_t fixed_bytes = 0;    // rings and states of a session
  double bytes_per_token = 1;  // of English text, with the tokenizer of the model

  // Reading a prompt in an empty session. It takes no less time than one decode step, because each
  // step reads all weights.
  double PrefillSeconds(uint64_t tokens) const;
  // The mean time between the tokens of an answer behind `prompt` tokens.
  double SecondsPerToken(uint64_t prompt, uint64_t tokens) const;
  // The memory of a session of this many tokens.
  uint64_t SessionBytes(uint64_t tokens) const;
  // The tokens of a text of this many bytes, rounded up.
  uint64_t TokensOf(uint64_t text_bytes) const;

  friend bool operator==(const ArmCosts&, const ArmCosts&) = default;
};

// The slopes that the memory of a model gives, for a model that could be measured at small depths
// only. A decode step reads the weights and the keys and values of each earlier token, so
//
//   slope / base = kv_bytes_per_token / weight_bytes
//
// Prefill gets the same proportion, which is too much rather than too little: it reads keys and
// values once for many tokens.
void SetSlopesByMemory(uint64_t weight_bytes, ArmCosts* costs);

// Keeps the slope of decode within 0.5 to 2 times the one that the memory gives, for a model that
// was not measured at great depths: there a disturbed sample may give any slope. In the middle of
// the measured depth, the line stays where it is.
void LimitSlopeByMemory(uint64_t weight_bytes, ArmCosts* costs);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ROUTING_ARM_COSTS_H_
