// The memory of the host that the process may use, and how much of it each model gets for caches.
#ifndef LONGSTREAM_SERVICE_MODELS_MEMORY_PLAN_H_
#define LONGSTREAM_SERVICE_MODELS_MEMORY_PLAN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/models/expected_memory.h"
#include "service/models/memory_division.h"
#include "service/models/served_model.h"

namespace longstream {

// The part of a limit that no cache gets.
struct HostReserve {
  uint64_t sessions = 0;  // for tokens, conversations and requests of turns (HostMemory)
  uint64_t rest = 0;      // for messages, tokenizers and memory that is lost between allocations

  // `session_bytes`: what the configuration gives to sessions; 0: the default.
  static HostReserve Of(uint64_t limit, uint64_t session_bytes);
  // UINT64_MAX stands for all larger sums.
  uint64_t Sum() const;
};

// Checks, before a model is loaded, that the cache_bytes of the models and `session_bytes` (as for
// HostReserve) fit into the memory that the process may use. Counts only models that certainly run
// in the host's memory. RESOURCE_EXHAUSTED: the message names the models, their bytes and the
// limit.
absl::Status CheckCacheBytes(uint64_t limit, std::span<const ModelSource> sources,
                             std::span<const std::shared_ptr<const Plugin>> plugins,
                             uint64_t session_bytes = 0);

// The plan changes while models are loaded: the weights of a model that is not loaded yet are
// estimated from its files, and it is expected to need as much for its caches as the others get.
// Models that give cache_bytes get these; the others share what remains (DivideMemory). A model on
// a GPU takes nothing of the host's memory. A model that may run on a GPU or in the host's memory
// is expected to take no more than a share of the host's, until it has been opened.
//
// Not thread-safe.
class MemoryPlan {
 public:
  // `used`: bytes that the process holds before the first model is loaded. `session_bytes`: as for
  // HostReserve. limit 0: no plan, every model may take all memory.
  MemoryPlan(uint64_t limit, uint64_t used, std::span<const ModelSource> sources,
             std::span<const std::shared_ptr<const Plugin>> plugins, uint64_t session_bytes = 0);

  bool is_active() const { return limit_ > 0; }
  uint64_t limit() const { return limit_; }
  const HostReserve& reserve() const { return reserve_; }

  // A model that will be opened beside the others, under a name of its own in the plan.
  // RESOURCE_EXHAUSTED: it runs in the host's memory for certain, and needs more bytes than there
  // are beside what the others need at least; the plan is as before, and the message names the
  // bytes.
  absl::Status Expect(const std::string& name, const ModelSource& source,
                      std::span<const std::shared_ptr<const Plugin>> plugins);
  // Whether the memory that all models need now, with what their sessions hold, is within the
  // limit. RESOURCE_EXHAUSTED: it is not; the message names the bytes.
  absl::Status CheckHeld() const;

  // The budget with which the model is opened in the host's memory. Its refusal is
  // RESOURCE_EXHAUSTED if nothing is left for the model's caches, or if its cache_bytes do not fit
  // beside those of the others. For a model that may also run on a GPU, also if Expect or CheckHeld
  // would refuse it without a GPU.
  HostBudget BudgetFor(std::string_view name) const;

  // The model has been opened in the host's memory. `fixed`: its budget, if it cannot change any
  // more; otherwise 0. RESOURCE_EXHAUSTED: there is too little memory for the model beside the
  // others; it is then no part of the plan.
  absl::Status Add(std::string_view name, uint64_t weights_and_workspace, const CacheNeed& need,
                   uint64_t fixed);
  // The model could not be loaded, or is not in the host's memory.
  void Remove(std::string_view name);

  // The model can compute nothing any more. From now on it counts with what its sessions hold, and
  // with its weights, which stay in memory. Nothing happens if it is no part of the plan.
  void Lose(std::string_view name);

  // The bytes that the model's sessions have reserved.
  void SetHeld(std::string_view name, uint64_t bytes);
  // The bytes that the process holds now beside caches and sessions. They count if they are more
  // than what it held at the start plus weights and workspaces.
  void SetUsed(uint64_t bytes) { measured_ = bytes; }

  struct Share {
    std::string name;
    uint64_t bytes = 0;
  };
  // The shares of the added models whose budget is not fixed. *settled as in MemoryShares, and
  // false while the sessions of a lost model hold memory.
  std::vector<Share> Shares(bool* settled) const;

 private:
  struct Entry {
    std::string name;
    uint64_t own = 0;        // weights and workspace
    uint64_t fixed = 0;      // 0: the model has a share
    bool is_certain = true;  // the model runs in the host's memory for certain
    bool is_added = false;
    bool is_lost = false;  // `fixed` is what the sessions hold
    CacheNeed need;
    // If the model is not certain: what it would need in the host's memory.
    struct {
      uint64_t own = 0;
      uint64_t least = 0;  // as in CacheNeed
      absl::Status refusal;
    } on_host;

    bool HasShare() const { return !is_lost && (fixed == 0 || !(is_certain || is_added)); }
  };
  static Entry EntryOf(const std::string& name, const ModelSource& source,
                       std::span<const std::shared_ptr<const Plugin>> plugins);
  // Whether a model that is not in the plan fits beside what the others need at least.
  absl::Status CheckRoom(const ExpectedMemory& expected, uint64_t fixed) const;
  // The budget of a model that turns out to run in the host's memory.
  HostBudget BudgetOnHost(const Entry& asking) const;
  const Entry* Find(std::string_view name) const;
  Entry* Find(std::string_view name);
  // The models without a fixed budget, and how the rest is divided among them.
  std::vector<const Entry*> Sharing() const;
  MemoryShares Divide() const;
  uint64_t Used() const;
  uint64_t Fixed() const;
  // The bytes that are left for the caches of models without a fixed budget.
  uint64_t Left() const;
  absl::Status NoRoom(std::string_view what) const;

  const uint64_t limit_;
  const HostReserve reserve_;
  const uint64_t used_at_start_;
  uint64_t measured_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_MEMORY_PLAN_H_
