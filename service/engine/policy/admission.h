// Which waiting turns are admitted, and which may overtake others.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "service/engine/policy/admission_budget.h"
#include "service/engine/policy/pool_bytes.h"

namespace longstream {

// The number of running turns. Turns that wait for their client do not compute, and nothing limits
// their number but their memory.
struct RunningTurns {
  size_t computing = 0;  // have something to compute
  size_t max_computing = 0;
  size_t all = 0;  // includes turns that wait for their client
  // If tenants share the model: how many of each tenant's turns compute, and how many of them are
  // its part of max_computing. Empty: there is one tenant.
  std::vector<size_t> computing_of = {};
  std::vector<size_t> part_of = {};
};

// One pass over the queue of waiting turns, from its front. It holds plain values only: the engine
// reports what it did, and the round decides what to do next.
//
// The caches of idle sessions count as available, because the engine evicts them for a turn.
//
// If the memory for a turn is not available, smaller turns behind it may overtake it, so that one
// long context does not block the model. But if the running turns will free enough memory for the
// turn, at most kMaxOvertaken turns may overtake it. After that the turn blocks the queue until it
// is admitted.
//
// If too many turns compute, a tenant that has less than its part of them may still have another
// one. So the turns of one tenant do not keep out those of the others, and at most twice as many
// turns compute.
class AdmissionRound {
 public:
  static constexpr uint32_t kMaxOvertaken = 64;

  AdmissionRound(const RunningTurns& running, const AdmissionBudget& budget)
      : running_(running), budget_(budget) {}

  // Whether another turn may be admitted: not too many turns compute, or some tenant has less than
  // its part; and no earlier turn blocks the queue.
  bool GoesOn() const;
  // Whether this tenant may have another turn that computes.
  bool HasPlaceFor(size_t tenant) const;

  // The engine looks at idle sessions only if a turn needs more than is free, because there may be
  // many of them. SetIdle sets AdmissionBudget::evictable and safe. An admission may change them.
  bool knows_idle() const { return knows_idle_; }
  void SetIdle(uint64_t evictable, uint64_t safe);

  // Whether a reservation of `wanted` may succeed after evictions. If it returns false, the engine
  // skips the attempt: too little memory is available, or an earlier turn asked for the same or
  // less and did not get it. So a long queue costs little. `own`: the part of the evictable bytes
  // that the turn's own session holds, here and in Wait.
  bool MayFit(const PoolBytes& wanted, uint64_t own = 0) const;

  // The caches of the open sessions of one tenant, in its quota.
  struct TenantCaches {
    uint64_t idle = 0;  // of sessions that could be evicted now
    uint64_t all = 0;
  };
  // `count` looks at all sessions, of all tenants. It is called once, and again after an admission
  // or ForgetCaches, so a long queue of a tenant without room costs little.
  TenantCaches CachesOf(size_t tenant, absl::FunctionRef<std::vector<TenantCaches>()> count);
  // Sessions were evicted.
  void ForgetCaches() { caches_.reset(); }

  // A turn was admitted.
  struct Admitted {
    size_t tenant = 0;
    bool computes = false;
    uint64_t free = 0;  // bytes of the budget that are left
    uint64_t held = 0;  // bytes that the turn's session holds
  };
  void Admit(const Admitted& admitted);

  // The backend had no memory for a turn for which MayFit was true.
  void FoundMissing(const PoolBytes& wanted) { missing_.push_back(wanted); }

  // Reports a turn that found no memory. `times_overtaken`: how often other turns have overtaken it
  // before this round. True: the turn waits and is added to waiting(). False: the turn must be
  // refused, because there would not be enough memory if all running turns ended; budget() says
  // why.
  bool Wait(const PoolBytes& wanted, uint32_t times_overtaken, uint64_t own = 0);
  // A turn waits because of its tenant: for the end of another turn of the tenant. It does not
  // block the queue, and others do not overtake it.
  void WaitForTenant(uint32_t times_overtaken) {
    waiting_.push_back({times_overtaken, false, true});
  }

  // The turns for which Wait returned true or WaitForTenant was called, in the order of the calls.
  struct Waiting {
    uint32_t times_overtaken = 0;  // before this round and in it
    bool is_coming = false;        // it has enough memory when the computing turns have ended
    bool is_for_tenant = false;
  };
  const std::vector<Waiting>& waiting() const { return waiting_; }

  const AdmissionBudget& budget() const { return budget_; }

 private:
  RunningTurns running_;
  AdmissionBudget budget_;
  bool knows_idle_ = false;
  std::optional<std::vector<TenantCaches>> caches_;  // by tenant
  std::vector<Waiting> waiting_;
  std::vector<PoolBytes> missing_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_ADMISSION_H_
