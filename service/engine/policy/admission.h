// Which waiting turns are admitted, and which may overtake others.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/engine/policy/admission_budget.h"
#include "service/engine/policy/pool_bytes.h"

namespace longstream {

// The number of running turns. Turns that wait for their client do not compute, and nothing limits
// their number but their memory.
struct RunningTurns {
  size_t computing = 0;  // have something to compute
  size_t max_computing = 0;
  size_t all = 0;  // includes turns that wait for their client
};

// One pass over the queue of waiting turns, from its front. It holds plain values only: the engine
// reports what it did, and the round decides what to do next.
//
// If the memory for a turn is not free, smaller turns behind it may overtake it, so that one long
// context does not block the model. But if the running turns will free enough memory for the turn,
// at most kMaxOvertaken turns may overtake it. After that the turn blocks the queue until it is
// admitted.
class AdmissionRound {
 public:
  static constexpr uint32_t kMaxOvertaken = 64;

  AdmissionRound(const RunningTurns& running, const AdmissionBudget& budget)
      : running_(running), budget_(budget) {}

  // Whether another turn may be admitted: not too many turns compute, and no earlier turn blocks
  // the queue.
  bool GoesOn() const;

  // Whether a reservation of `wanted` may succeed. If it returns false, the engine skips the
  // attempt: too little memory is free, or an earlier turn asked for the same or less and did not
  // get it. So a long queue costs little.
  bool MayFit(const PoolBytes& wanted) const;

  // A turn was admitted.
  struct Admitted {
    bool computes = false;
    uint64_t free = 0;         // bytes of the budget that are left
    uint64_t coming = 0;       // bytes that the turn gives back if it ends now
    uint64_t most_coming = 0;  // bytes that the turn gives back if it is rolled back
  };
  void Admit(const Admitted& admitted);

  // The backend had no memory for a turn for which MayFit was true.
  void FoundMissing(const PoolBytes& wanted) { missing_.push_back(wanted); }

  // Reports a turn that found no memory. `times_overtaken`: how often other turns have overtaken it
  // before this round. True: the turn waits and is added to waiting(). False: the turn must be
  // refused, because the running turns would not free enough memory by ending; budget() says why.
  bool Wait(const PoolBytes& wanted, uint32_t times_overtaken);

  // The turns for which Wait returned true, in the order of the calls.
  struct Waiting {
    uint32_t times_overtaken = 0;  // before this round and in it
    bool is_coming = false;        // the computing turns will free enough memory for it
  };
  const std::vector<Waiting>& waiting() const { return waiting_; }

  const AdmissionBudget& budget() const { return budget_; }

 private:
  RunningTurns running_;
  AdmissionBudget budget_;
  std::vector<Waiting> waiting_;
  std::vector<PoolBytes> missing_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_
