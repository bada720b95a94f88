// The bytes that a model's cache budget can give to a turn, now and after other turns have ended.
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
  // Bytes that the computing turns reserved and do not use: they give them back if they end now.
  uint64_t coming = 0;
  // Bytes that all running turns, also those that wait for their client, give back if each is
  // rolled back to its start.
  uint64_t most_coming = 0;

  // Whether running turns can make room for so many bytes.
  bool CanCome(uint64_t wanted) const { return wanted <= free || wanted - free <= most_coming; }
  // Whether the computing turns make room if they end now. A turn that waits for this does not wait
  // for a client.
  bool IsComing(uint64_t wanted) const { return wanted <= free || wanted - free <= coming; }
  // The sentence for a turn that is refused `wanted` bytes.
  std::string Refusal(uint64_t wanted) const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
