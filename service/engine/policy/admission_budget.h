// What a model's cache budget can give to a turn: now, and when others have ended.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_

#include <cstdint>
#include <string>

#include "backends/api/backend.h"

namespace longstream {

// Bytes of a model's cache budget, by the two kinds of which a device may have a pool each.
struct PoolBytes {
  uint64_t pages = 0;
  uint64_t fixed = 0;  // rings, states and checkpoints

  uint64_t total() const { return pages + fixed; }
};

// Of the pages that hold so many tokens of one sequence.
uint64_t PageBytes(const ls_model_info& info, uint64_t tokens);

// Bytes of a model's cache budget at one moment. What sessions without a running turn hold stays,
// as far as anybody knows: they may be closed, but nobody waits for that.
struct AdmissionBudget {
  uint64_t total = 0;
  uint64_t free = 0;
  // What running turns that compute would give back if they ended now as they stand: what they have
  // reserved and not used.
  uint64_t coming = 0;
  // What all running turns give back at most, those that wait for their client included: when each
  // is rolled back to where it began.
  uint64_t most_coming = 0;

  // Whether running turns can make room for so much, if they end in time.
  bool CanCome(uint64_t wanted) const { return wanted <= free || wanted - free <= most_coming; }
  // Whether the end of those that compute will, as they stand: whoever waits for it waits for
  // nobody's client.
  bool IsComing(uint64_t wanted) const { return wanted <= free || wanted - free <= coming; }
  // In words, for whoever is refused `wanted`.
  std::string Refusal(uint64_t wanted) const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
