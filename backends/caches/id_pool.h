// Gives out small integers, always the lowest free one, so that arrays indexed by them stay small.
#ifndef LONGSTREAM_BACKENDS_CACHES_ID_POOL_H_
#define LONGSTREAM_BACKENDS_CACHES_ID_POOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace longstream {

// Not thread-safe.
class IdPool {
 public:
  // Reserves memory, so that Take allocates nothing while fewer than `count` ids are taken.
  void Prepare(size_t count) {
    if (count > free_.capacity()) free_.reserve(std::max(count, 2 * free_.capacity()));
  }

  // Takes the lowest free id, which is below the prepared count. REQUIRES: fewer ids are taken than
  // Prepare was called for.
  int32_t Take() {
    if (free_.empty()) return next_++;
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    const int32_t id = free_.back();
    free_.pop_back();
    return id;
  }

  // REQUIRES: `id` is taken.
  void Give(int32_t id) {
    free_.push_back(id);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }

  size_t num_taken() const { return static_cast<size_t>(next_) - free_.size(); }

 private:
  std::vector<int32_t> free_;  // the free ids below next_, as a heap with the lowest in front
  int32_t next_ = 0;           // the lowest id that was never taken
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_ID_POOL_H_
