// Shares the places of a batch among groups of turns (stride scheduling): the next slice goes to
// the group that will then have had least in relation to its weight. Within a priority, it goes to
// the tenant that will then have had least.
#include "service/engine/policy/batch_places.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "service/engine/policy/fair_share.h"

namespace longstream {
namespace {

constexpr size_t kNumGroups = PlaceShares::kNumGroups;
constexpr size_t kNumPriorities = PlaceShares::kNumPriorities;
constexpr double kOnlyWeight[] = {1.0};

// If the machine stalls, more time than this is not charged. Otherwise a turn would have to wait as
// long as the machine has stalled during its slice.
constexpr double kMostElapsed = 100;

double CostOfSlice(size_t group) {
  constexpr double kWeights[] = {1, 4, 16};
  return 1 / kWeights[group / 2];
}

// The turns of one tenant in one group. Group 2 p + 1 has the new turns of priority p, and group
// 2 p the others. If two groups have had equally much, the higher group goes first.
struct Queue {
  size_t group = 0;
  size_t tenant = 0;

  size_t priority() const { return group / 2; }
};

Queue QueueOf(const PlaceCandidate& candidate) {
  const auto priority = static_cast<size_t>(std::clamp(candidate.priority, 0, 2));
  return {2 * priority + (candidate.is_new ? 1 : 0), candidate.tenant};
}

// Candidates by queue, in the order in which each queue serves them.
class Queues {
 public:
  explicit Queues(size_t num_tenants)
      : num_tenants_(num_tenants), entries_(kNumGroups * num_tenants) {}

  void Add(const PlaceCandidate& candidate, uint32_t index) {
    At(QueueOf(candidate)).indices.push_back(index);
  }
  void Sort(std::span<const PlaceCandidate> candidates) {
    for (Entry& entry : entries_) {
      std::sort(entry.indices.begin(), entry.indices.end(),
                [&](uint32_t a, uint32_t b) { return candidates[a].since < candidates[b].since; });
    }
  }
  bool Has(const Queue& queue) const { return Size(queue) > 0; }
  // Whether the tenant has turns of this priority.
  bool Has(size_t priority, size_t tenant) const {
    return Has(Queue{2 * priority, tenant}) || Has(Queue{2 * priority + 1, tenant});
  }
  bool HasGroup(size_t group) const {
    for (size_t tenant = 0; tenant < num_tenants_; ++tenant) {
      if (Has({group, tenant})) return true;
    }
    return false;
  }
  uint32_t Take(const Queue& queue) {
    Entry& entry = At(queue);
    return entry.indices[entry.taken++];
  }

 private:
  struct Entry {
    std::vector<uint32_t> indices;
    size_t taken = 0;
  };

  size_t Size(const Queue& queue) const {
    const Entry& entry = entries_[queue.group * num_tenants_ + queue.tenant];
    return entry.indices.size() - entry.taken;
  }
  Entry& At(const Queue& queue) { return entries_[queue.group * num_tenants_ + queue.tenant]; }

  const size_t num_tenants_;
  std::vector<Entry> entries_;
};

// The shares while one call decides.
class Account {
 public:
  Account(const PlaceShares& shares, double elapsed, std::span<const double> weights)
      : shares_(shares),
        weights_(weights),
        elapsed_(std::clamp(elapsed, 0.0, kMostElapsed)),
        slice_(std::max(1.0, elapsed_)),
        held_(kNumPriorities * weights.size()),
        has_turns_(held_.size()) {
    shares_.had_by_tenant.resize(held_.size());
  }

  const PlaceShares& shares() const { return shares_; }
  size_t num_tenants() const { return weights_.size(); }

  // A tenant has a turn of this priority.
  void Note(const PlaceCandidate& candidate) {
    const Queue queue = QueueOf(candidate);
    has_turns_[Index(queue)] = true;
    if (candidate.holds_place) ++held_[Index(queue)];
  }
  // The time that the group will have had after one more slice, and the tenant.
  double After(const Queue& queue) const {
    return shares_.had[queue.group] + slice_ * CostOfSlice(queue.group);
  }
  double TenantAfter(const Queue& queue) const {
    return shares_.had_by_tenant[Index(queue)] + slice_ / weights_[queue.tenant];
  }
  // The places that the tenant's turns of this priority hold, in relation to its weight.
  double Held(const Queue& queue) const {
    return static_cast<double>(held_[Index(queue)]) / weights_[queue.tenant];
  }
  // Whether the tenant has no more than its share of the places of this priority.
  bool IsWithinShare(const Queue& queue) const;

  // A turn of the queue begins a slice. It is charged in advance, so a short turn is charged too.
  void Charge(const Queue& queue) {
    shares_.had[queue.group] = After(queue);
    shares_.had_by_tenant[Index(queue)] = TenantAfter(queue);
  }
  // A turn has used its place since the last call, after the end of its slice.
  void ChargeOvertime(const Queue& queue) {
    shares_.had[queue.group] += elapsed_ * CostOfSlice(queue.group);
    shares_.had_by_tenant[Index(queue)] += elapsed_ / weights_[queue.tenant];
  }
  void AddPlace(const Queue& queue) { ++held_[Index(queue)]; }
  void RemovePlace(const Queue& queue) { --held_[Index(queue)]; }

  // Ends the call. `waiting` has the turns that wait now.
  void Level(const Queues& waiting);

 private:
  size_t Index(const Queue& queue) const {
    return queue.priority() * weights_.size() + queue.tenant;
  }

  PlaceShares shares_;
  const std::span<const double> weights_;
  const double elapsed_;
  const double slice_;  // at least the length of a step, because turns do not yield during a step
  std::vector<size_t> held_;     // by priority and tenant, as shares_.had_by_tenant
  std::vector<bool> has_turns_;  // the same
};

bool Account::IsWithinShare(const Queue& queue) const {
  double weights = 0.0;
  size_t held = 0;
  for (size_t tenant = 0; tenant < weights_.size(); ++tenant) {
    const size_t index = Index({queue.group, tenant});
    if (has_turns_[index]) weights += weights_[tenant];
    held += held_[index];
  }
  return Held(queue) * weights <= static_cast<double>(held);
}

void Account::Level(const Queues& waiting) {
  LevelToLeast(shares_.had, [&](size_t group) { return waiting.HasGroup(group); });
  for (size_t priority = 0; priority < kNumPriorities; ++priority) {
    LevelToLeast(std::span(shares_.had_by_tenant).subspan(priority * num_tenants(), num_tenants()),
                 [&](size_t tenant) { return waiting.Has(priority, tenant); });
  }
}

// The tenant whose turn of this priority gets the next place. Absent if none waits.
std::optional<size_t> TenantToTake(const Queues& waiting, const Account& account, size_t priority) {
  std::optional<size_t> least;
  const auto rank = [&](size_t tenant) {
    const Queue queue{2 * priority, tenant};
    return std::make_pair(account.TenantAfter(queue), account.Held(queue));
  };
  for (size_t tenant = 0; tenant < account.num_tenants(); ++tenant) {
    if (!waiting.Has(priority, tenant)) continue;
    if (!least.has_value() || rank(tenant) < rank(*least)) least = tenant;
  }
  return least;
}

// The tenant whose turn of this priority yields next. Absent if no slice is over.
std::optional<size_t> TenantToYield(const Queues& over, const Account& account, size_t priority) {
  std::optional<size_t> most;
  const auto rank = [&](size_t tenant) {
    const Queue queue{2 * priority, tenant};
    return std::make_pair(account.Held(queue), account.TenantAfter(queue));
  };
  for (size_t tenant = 0; tenant < account.num_tenants(); ++tenant) {
    if (!over.Has(priority, tenant)) continue;
    if (!most.has_value() || rank(tenant) > rank(*most)) most = tenant;
  }
  return most;
}

// The queue whose first waiting turn gets the next place. Absent if no turn waits.
std::optional<Queue> NextToTake(const Queues& waiting, const Account& account) {
  std::optional<Queue> next;
  for (size_t priority = kNumPriorities; priority-- > 0;) {
    const std::optional<size_t> tenant = TenantToTake(waiting, account, priority);
    if (!tenant.has_value()) continue;
    for (const size_t group : {2 * priority + 1, 2 * priority}) {
      const Queue queue{group, *tenant};
      if (!waiting.Has(queue)) continue;
      if (!next.has_value() || account.After(queue) < account.After(*next)) next = queue;
    }
  }
  return next;
}

// The queue whose first turn yields next, among the turns whose slice is over. Absent if there are
// none.
std::optional<Queue> NextToYield(const Queues& over, const Account& account) {
  std::optional<Queue> next;
  for (size_t priority = 0; priority < kNumPriorities; ++priority) {
    const std::optional<size_t> tenant = TenantToYield(over, account, priority);
    if (!tenant.has_value()) continue;
    for (const size_t group : {2 * priority, 2 * priority + 1}) {
      const Queue queue{group, *tenant};
      if (!over.Has(queue)) continue;
      if (!next.has_value() || account.After(queue) > account.After(*next)) next = queue;
    }
  }
  return next;
}

// Whether a turn whose slice is over keeps its place although `next` waits.
bool Stays(const Queue& holder, const Queue& next, const Account& account) {
  if (holder.priority() != next.priority() || holder.tenant == next.tenant) {
    return account.After(holder) < account.After(next);
  }
  return account.IsWithinShare(holder) || account.TenantAfter(holder) < account.TenantAfter(next);
}

}  // namespace

PlaceChanges SharePlaces(std::span<const PlaceCandidate> candidates, size_t num_places,
                         double elapsed, const PlaceShares& shares,
                         std::span<const double> weights) {
  if (weights.empty()) weights = kOnlyWeight;
  PlaceChanges changes;
  Account account(shares, elapsed, weights);
  Queues waiting(weights.size());
  Queues over(weights.size());
  size_t held = 0;
  bool any_over = false;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    const PlaceCandidate& candidate = candidates[i];
    account.Note(candidate);
    held += candidate.holds_place;
    if (!candidate.holds_place) waiting.Add(candidate, i);
    if (!candidate.slice_is_over) continue;
    over.Add(candidate, i);
    any_over = true;
    account.ChargeOvertime(QueueOf(candidate));
  }
  size_t free = num_places - std::min(num_places, held);
  if (free > 0 || any_over) {
    waiting.Sort(candidates);
    over.Sort(candidates);
  }
  while (const std::optional<Queue> next = NextToTake(waiting, account)) {
    if (free > 0) {
      --free;
    } else {
      const std::optional<Queue> holder = NextToYield(over, account);
      if (!holder.has_value()) break;
      const uint32_t index = over.Take(*holder);
      if (Stays(*holder, *next, account)) {
        changes.renews.push_back(index);
        account.Charge(*holder);
        continue;
      }
      changes.yields.push_back(index);
      account.RemovePlace(*holder);
    }
    changes.takes.push_back(waiting.Take(*next));
    account.Charge(*next);
    account.AddPlace(*next);
  }
  // A turn that yields waits from now on.
  for (const uint32_t index : changes.yields) waiting.Add(candidates[index], index);
  account.Level(waiting);
  changes.shares = account.shares();
  return changes;
}

}  // namespace longstream
