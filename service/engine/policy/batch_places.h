// Which turns hold the places in the batch, if there are more turns than places.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_BATCH_PLACES_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_BATCH_PLACES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longstream {

// A turn that has something to compute. A turn that waits for its client is no candidate.
struct PlaceCandidate {
  int32_t priority = 1;        // 0: low, 1: normal, 2: high
  uint32_t tenant = 0;         // whose turn it is
  bool holds_place = false;    // only turns with a place take part in steps
  bool slice_is_over = false;  // it holds a place and has used it for a time slice
  bool is_new = false;         // it has never held a place
  // When the turn got its place, or began to wait for one: a number that grows with each such
  // change of any turn. Smaller is earlier.
  uint64_t since = 0;
};

// How many time slices each group of turns has had, divided by the weight of the group. Turns of
// one priority form two groups: turns that have never held a place, and the others. So a turn gets
// its first slice soon, however many other turns rotate already.
struct PlaceShares {
  static constexpr size_t kNumGroups = 6;
  static constexpr size_t kNumPriorities = kNumGroups / 2;

  std::array<double, kNumGroups> had{};
  // The same for each tenant, with its turns of one priority: by priority, then tenant. Empty: none
  // has had anything.
  std::vector<double> had_by_tenant{};
};

// The changes before the next step. Each list holds indices of candidates, in the order of the
// changes.
struct PlaceChanges {
  std::vector<uint32_t> yields;  // lose their place
  std::vector<uint32_t> renews;  // keep their place, and begin another slice
  std::vector<uint32_t> takes;   // get a place
  PlaceShares shares;            // for the next call
};

// Decides which turns hold a place in the next step. `elapsed`: the time since the last call, in
// time slices. `shares`: from the last call; initially zero.
//
// If there are places for all candidates, all get one and no turn yields. Otherwise a turn keeps
// its place until its slice is over. After that it yields if a waiting turn goes before it.
//
// Groups get time in proportion to their weight: 16 for high priority, 4 for normal, 1 for low. So
// turns of high priority go first, and turns of low priority still progress. The turns of a group
// get places in the order in which they began to wait, and yield in the order in which they got
// their places. A group without waiting turns saves up no time for later.
//
// Among turns of one priority, tenants get time in proportion to their weights, whether their turns
// are new or not. A turn does not yield to another tenant's turn of its priority while its own
// tenant has no more than its share of the places that turns of this priority hold. `weights`: of
// the tenants; empty: there is one tenant.
PlaceChanges SharePlaces(std::span<const PlaceCandidate> candidates, size_t num_places,
                         double elapsed, const PlaceShares& shares,
                         std::span<const double> weights = {});

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_BATCH_PLACES_H_
