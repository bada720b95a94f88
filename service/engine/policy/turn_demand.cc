// Computes the memory that a turn needs and gives back.
#include "service/engine/policy/turn_demand.h"

#include <algorithm>

namespace longstream {

uint64_t TurnDemand::RequestedEnd() const {
  const uint64_t given = PromptEnd();
  if (!generates) return given;
  const uint64_t room = context_limit - std::min(given, context_limit);
  return given + (max_tokens == 0 ? room : std::min(max_tokens, room));
}

PoolBytes TurnDemand::Wanted(const ls_model_info& info, std::optional<uint64_t> cached) const {
  PoolBytes wanted;
  if (FillsContext()) return wanted;
  const uint64_t held = PageBytes(info, cached.value_or(0));
  const uint64_t needed = PageBytes(info, RequestedEnd());
  wanted.pages = needed - std::min(needed, held);
  wanted.fixed = info.checkpoint_bytes_per_sequence;
  if (!cached.has_value()) {
    wanted.fixed += SlotBytes(info);
  }
  return wanted;
}

uint64_t TurnDemand::Held(const ls_model_info& info, uint64_t reserved_end) {
  return PageBytes(info, reserved_end) + info.checkpoint_bytes_per_sequence + SlotBytes(info);
}

}  // namespace longstream
