// Which waiting turns are admitted, and which may overtake others.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/engine/policy/admission_budget.h"
#include "service/engine/policy/pool_bytes.h"

namespace longstream {

// Running turns, and how many there may be.
struct AdmissionPlaces {
  size_t computing = 0;
  size_t max_computing = 0;
  size_t open = 0;  // including turns that wait for their client
  size_t max_open = 0;
};

// One look through the queue of waiting turns, from its front. Plain values: the engine reports its
// actions, the round decides the next one.
//
// A turn whose memory is not free lets smaller turns behind it pass, so that one long context does
// not stop a model. While the running turns are about to make room for it, only kMaxOvertaken turns
// may pass; then it holds the line, and is admitted next.
class AdmissionRound {
 public:
  static constexpr uint32_t kMaxOvertaken = 64;

  AdmissionRound(const AdmissionPlaces& places, const AdmissionBudget& budget)
      : places_(places), budget_(budget) {}

  // Whether another turn may be admitted: there is a place, and no turn before it holds the line.
  bool GoesOn() const;

  // Whether a reservation of `wanted` may succeed. False saves the attempt: too little is free, or
  // an earlier turn asked for no more and did not get it. So a long queue costs little.
  bool MayFit(const PoolBytes& wanted) const;

  // A turn was admitted.
  struct Admitted {
    bool computes = false;
    uint64_t free = 0;         // bytes of the budget that are left
    uint64_t coming = 0;       // bytes that the turn gives back if it ends as it stands
    uint64_t most_coming = 0;  // bytes that it gives back if it is rolled back
  };
  void Admit(const Admitted& admitted);

  // The backend had no memory for a turn that may have fitted.
  void FoundMissing(const PoolBytes& wanted) { missing_.push_back(wanted); }

  // For a turn that finds no memory and was overtaken so often before this round. True: the turn
  // waits, as the next of waiting(). False: the turn is refused, because the running turns cannot
  // make enough room by ending; budget() says why.
  bool Wait(const PoolBytes& wanted, uint32_t times_overtaken);

  // Turns for which Wait was true, in that order: how often each has been overtaken by now.
  struct Waiting {
    uint32_t times_overtaken = 0;
    bool is_coming = false;  // the turns that compute will free its memory
  };
  const std::vector<Waiting>& waiting() const { return waiting_; }

  const AdmissionBudget& budget() const { return budget_; }
  const AdmissionPlaces& places() const { return places_; }

 private:
  AdmissionPlaces places_;
  AdmissionBudget budget_;
  std::vector<Waiting> waiting_;
  std::vector<PoolBytes> missing_;
};

// How many more turns can be admitted at once; any others that arrive wait.
size_t FreePlaces(const AdmissionPlaces& places);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_
