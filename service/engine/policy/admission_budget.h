// What a model's cache budget can give to a turn: now, and after other turns have ended.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_

#include <cstdint>
#include <string>

namespace longstream {

// Bytes of a model's cache budget at one moment. Sessions without a running turn keep what they
// hold: they may be closed, but no turn waits for that.
struct AdmissionBudget {
  uint64_t total = 0;
  uint64_t free = 0;
  // Reserved and not used by the running turns that compute: they give it back if they end now.
  uint64_t coming = 0;
  // Given back by all running turns, those that wait for their client included, if each of them is
  // rolled back to where it began.
  uint64_t most_coming = 0;

  // Whether running turns can make room for so many bytes.
  bool CanCome(uint64_t wanted) const { return wanted <= free || wanted - free <= most_coming; }
  // Whether the turns that compute make room by ending as they stand. A turn that waits for this
  // waits for no client.
  bool IsComing(uint64_t wanted) const { return wanted <= free || wanted - free <= coming; }
  // The sentence for a turn that is refused `wanted` bytes.
  std::string Refusal(uint64_t wanted) const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
