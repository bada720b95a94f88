// Gives out small integers, always the lowest free one, so that arrays indexed by them stay small.
#ifndef LONGSTREAM_BACKENDS_CACHES_ID_POOL_H_
#define LONGSTREAM_BACKENDS_CACHES_ID_POOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace longstream {

// An id stands for a piece of memory. A free id is *idle* if its piece may still hold memory of the
// system: the id was taken before, and its memory has not been given back since. Not thread-safe.
class IdPool {
 public:
  // Reserves memory, so that Take allocates nothing while fewer than `count` ids are taken.
  void Prepare(size_t count) {
    if (count > free_.capacity()) free_.reserve(std::max(count, 2 * free_.capacity()));
    if (count > states_.capacity()) states_.reserve(std::max(count, 2 * states_.capacity()));
  }

  struct Taken {
    int32_t id = 0;
    bool was_idle = false;  // its piece may hold what its last holder wrote
  };
  // Takes the lowest free id, which is below the prepared count. REQUIRES: fewer ids are taken than
  // Prepare was called for.
  Taken Take() {
    if (free_.empty()) {
      states_.push_back(State::kTaken);
      return {.id = static_cast<int32_t>(states_.size()) - 1};
    }
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    const int32_t id = free_.back();
    free_.pop_back();
    State& state = states_[static_cast<size_t>(id)];
    const bool was_idle = state == State::kIdle;
    if (was_idle) --num_idle_;
    state = State::kTaken;
    return {id, was_idle};
  }

  // The id is then idle. REQUIRES: `id` is taken.
  void Give(int32_t id) {
    states_[static_cast<size_t>(id)] = State::kIdle;
    ++num_idle_;
    free_.push_back(id);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }

  size_t num_taken() const { return states_.size() - free_.size(); }
  size_t num_idle() const { return num_idle_; }

  // Whether the id is taken. An id that was never taken counts as taken: it may be outside the
  // pool.
  bool IsTaken(size_t id) const { return id >= states_.size() || states_[id] == State::kTaken; }

  // Whether the id is neither taken nor idle.
  bool IsEmpty(size_t id) const { return id >= states_.size() || states_[id] == State::kEmpty; }

  // Makes up to `most` idle ids free but not idle, the highest ones first. Calls
  // give_back(first, last) for each run [first, last) of neighbours. Returns the number of ids.
  template <typename GiveBack>
  size_t ReturnIdle(size_t most, const GiveBack& give_back) {
    most = std::min(most, num_idle_);
    size_t left = most;
    for (size_t id = states_.size(); left > 0;) {
      while (states_[id - 1] != State::kIdle) --id;
      const size_t last = id;
      for (; left > 0 && id > 0 && states_[id - 1] == State::kIdle; --left) {
        states_[--id] = State::kEmpty;
      }
      give_back(id, last);
    }
    num_idle_ -= most;
    return most;
  }

 private:
  enum class State : uint8_t { kTaken, kIdle, kEmpty };

  std::vector<int32_t> free_;  // the free ids, as a heap with the lowest in front
  std::vector<State> states_;  // [largest number of ids ever taken]
  size_t num_idle_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_ID_POOL_H_
