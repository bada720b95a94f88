// Shares the places of a batch among groups of turns (stride scheduling): the next slice goes to
// the group that will then have had least in relation to its weight.
#include "service/engine/policy/batch_places.h"

#include <algorithm>
#include <deque>
#include <optional>

namespace longstream {
namespace {

constexpr size_t kNumGroups = PlaceShares::kNumGroups;

// Group 2 p + 1 has the new turns of priority p, and group 2 p the others. If two groups have had
// equally much, the higher group goes first.
size_t GroupOf(const PlaceCandidate& candidate) {
  const auto priority = static_cast<size_t>(std::clamp(candidate.priority, 0, 2));
  return 2 * priority + (candidate.is_new ? 1 : 0);
}

// If the machine stalls, more time than this is not charged. Otherwise a turn would have to wait as
// long as the machine has stalled during its slice.
constexpr double kMostElapsed = 100;

double CostOfSlice(size_t group) {
  constexpr double kWeights[] = {1, 4, 16};
  return 1 / kWeights[group / 2];
}

// Candidates by group, in the order in which each group serves them.
class Groups {
 public:
  void Add(const PlaceCandidate& candidate, uint32_t index) {
    groups_[GroupOf(candidate)].push_back(index);
  }
  void Sort(std::span<const PlaceCandidate> candidates) {
    for (std::deque<uint32_t>& group : groups_) {
      std::sort(group.begin(), group.end(),
                [&](uint32_t a, uint32_t b) { return candidates[a].since < candidates[b].since; });
    }
  }
  bool Has(size_t group) const { return !groups_[group].empty(); }
  uint32_t Take(size_t group) {
    const uint32_t index = groups_[group].front();
    groups_[group].pop_front();
    return index;
  }

 private:
  std::array<std::deque<uint32_t>, kNumGroups> groups_;
};

// The shares while one call decides.
class Account {
 public:
  Account(const PlaceShares& shares, double elapsed)
      : shares_(shares),
        elapsed_(std::clamp(elapsed, 0.0, kMostElapsed)),
        slice_(std::max(1.0, elapsed_)) {}

  const PlaceShares& shares() const { return shares_; }
  // The time that the group will have had after one more slice.
  double After(size_t group) const { return shares_.had[group] + slice_ * CostOfSlice(group); }
  // A turn of the group begins a slice. It is charged in advance, so a short turn is charged too.
  void Charge(size_t group) { shares_.had[group] = After(group); }
  // A turn of the group has used its place since the last call, after the end of its slice.
  void ChargeOvertime(size_t group) { shares_.had[group] += elapsed_ * CostOfSlice(group); }
  // Ends the call. `waiting` has the turns that wait now.
  void Level(const Groups& waiting);

 private:
  PlaceShares shares_;
  const double elapsed_;
  const double slice_;  // at least the length of a step, because turns do not yield during a step
};

void Account::Level(const Groups& waiting) {
  std::optional<double> least;
  for (size_t group = 0; group < kNumGroups; ++group) {
    if (!waiting.Has(group)) continue;
    least = std::min(least.value_or(shares_.had[group]), shares_.had[group]);
  }
  if (!least.has_value()) {
    shares_ = PlaceShares();
    return;
  }
  for (size_t group = 0; group < kNumGroups; ++group) {
    double& had = shares_.had[group];
    // A group without waiting turns saves up nothing.
    if (!waiting.Has(group)) had = std::max(had, *least);
    had -= *least;  // only differences matter, and small numbers are exact
  }
}

// The group whose first waiting turn gets the next place. Absent if no turn waits.
std::optional<size_t> NextToTake(const Groups& waiting, const Account& account) {
  std::optional<size_t> next;
  for (size_t group = kNumGroups; group-- > 0;) {
    if (!waiting.Has(group)) continue;
    if (!next.has_value() || account.After(group) < account.After(*next)) next = group;
  }
  return next;
}

// The group whose first turn yields next, among the turns whose slice is over. Absent if there are
// none.
std::optional<size_t> NextToYield(const Groups& over, const Account& account) {
  std::optional<size_t> next;
  for (size_t group = 0; group < kNumGroups; ++group) {
    if (!over.Has(group)) continue;
    if (!next.has_value() || account.After(group) > account.After(*next)) next = group;
  }
  return next;
}

}  // namespace

PlaceChanges SharePlaces(std::span<const PlaceCandidate> candidates, size_t num_places,
                         double elapsed, const PlaceShares& shares) {
  PlaceChanges changes;
  Account account(shares, elapsed);
  Groups waiting;
  Groups over;
  size_t held = 0;
  bool any_over = false;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    const PlaceCandidate& candidate = candidates[i];
    held += candidate.holds_place;
    if (!candidate.holds_place) waiting.Add(candidate, i);
    if (!candidate.slice_is_over) continue;
    over.Add(candidate, i);
    any_over = true;
    account.ChargeOvertime(GroupOf(candidate));
  }
  size_t free = num_places - std::min(num_places, held);
  if (free > 0 || any_over) {
    waiting.Sort(candidates);
    over.Sort(candidates);
  }
  while (const std::optional<size_t> next = NextToTake(waiting, account)) {
    if (free > 0) {
      --free;
    } else {
      const std::optional<size_t> holder = NextToYield(over, account);
      if (!holder.has_value()) break;
      const uint32_t index = over.Take(*holder);
      if (account.After(*holder) < account.After(*next)) {
        changes.renews.push_back(index);
        account.Charge(*holder);
        continue;
      }
      changes.yields.push_back(index);
    }
    changes.takes.push_back(waiting.Take(*next));
    account.Charge(*next);
  }
  // A turn that yields waits from now on.
  for (const uint32_t index : changes.yields) waiting.Add(candidates[index], index);
  account.Level(waiting);
  changes.shares = account.shares();
  return changes;
}

}  // namespace longstream
