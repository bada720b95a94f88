// The bytes that a model's cache budget can give to a turn, now and after other turns have ended.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_

#include <cstdint>
#include <string>

namespace longstream {

// The cache budget of a model at one moment, in bytes. Sessions without a running turn keep their
// memory. A client may close such a session, but no turn waits for that.
struct AdmissionBudget {
  uint64_t total = 0;
  uint64_t free = 0;
  // Bytes that the computing turns have reserved but not used. They give these bytes back if they
  // end now.
  uint64_t coming = 0;
  // Bytes that all running turns give back if each is rolled back to its start. Includes turns that
  // wait for their client.
  uint64_t most_coming = 0;

  // Whether the running turns can free enough memory for `wanted` bytes.
  bool CanCome(uint64_t wanted) const { return wanted <= free || wanted - free <= most_coming; }
  // Whether the computing turns free enough memory for `wanted` bytes if they end now. Computing
  // turns do not wait for a client, so a turn that waits for this memory does not depend on one.
  bool IsComing(uint64_t wanted) const { return wanted <= free || wanted - free <= coming; }
  // The error message for a turn that needs `wanted` bytes and does not get them.
  std::string Refusal(uint64_t wanted) const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
