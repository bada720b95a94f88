// Hands out small integers, the lowest free one first, so that stores indexed by them stay compact.
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
  // Makes room: afterwards Take allocates nothing while fewer than `count` ids are out.
  void Prepare(size_t count) {
    if (count > free_.capacity()) free_.reserve(std::max(count, 2 * free_.capacity()));
  }

  // The lowest free id. It is below the prepared count. REQUIRES: fewer ids are out than were
  // prepared for.
  int32_t Take() {
    if (free_.empty()) return next_++;
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    const int32_t id = free_.back();
    free_.pop_back();
    return id;
  }

  // REQUIRES: `id` is out.
  void Give(int32_t id) {
    free_.push_back(id);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }

  size_t num_taken() const { return static_cast<size_t>(next_) - free_.size(); }

 private:
  std::vector<int32_t> free_;  // ids below next_ that are not out; a heap, the lowest in front
  int32_t next_ = 0;           // the lowest id that has never been out
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_ID_POOL_H_
