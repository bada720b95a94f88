// The bytes that a model's cache budget can give to a turn, now and after other turns have ended.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace longstream {

// The cache budget of a model at one moment, in bytes. The caches of idle sessions can be evicted,
// and so can those of a running turn when the turn has ended.
struct AdmissionBudget {
  uint64_t total = 0;
  uint64_t free = 0;
  uint64_t evictable = 0;  // bytes that evicting idle sessions frees now
  uint64_t safe = 0;       // bytes of idle sessions that can be evicted some seconds later
  // Bytes that the sessions of computing turns hold. They can be freed when these turns end.
  uint64_t coming = 0;
  // Bytes that the sessions of all running turns hold. Includes turns that wait for their client.
  uint64_t most_coming = 0;

  // Whether `wanted` bytes are free after evictions.
  bool HasRoom(uint64_t wanted) const { return wanted <= free || wanted - free <= evictable; }
  // Whether `wanted` bytes can be free when the running turns have ended.
  bool CanCome(uint64_t wanted) const { return Fits(wanted, most_coming); }
  // Whether `wanted` bytes can be free when the computing turns have ended. Computing turns do not
  // wait for a client, so a turn that waits for this memory does not depend on one.
  bool IsComing(uint64_t wanted) const { return Fits(wanted, coming); }
  // The error message for a turn that needs `wanted` bytes and does not get them.
  std::string Refusal(uint64_t wanted) const;

 private:
  // The sums are taken apart, because they may be greater than any number.
  bool Fits(uint64_t wanted, uint64_t running) const {
    for (const uint64_t part : {free, evictable, safe, running}) wanted -= std::min(wanted, part);
    return wanted == 0;
  }
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_BUDGET_H_
