// Memory that free pieces of a pool still hold, and when the system gets it back.
#ifndef LONGSTREAM_BACKENDS_CACHES_IDLE_MEMORY_H_
#define LONGSTREAM_BACKENDS_CACHES_IDLE_MEMORY_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "backends/caches/device_memory.h"
#include "backends/caches/id_pool.h"

namespace longstream {

// A store may always keep this much, so that short sessions which come one after the other cause no
// page faults.
inline constexpr uint64_t kIdleBytesKept = uint64_t{8} << 20;

// The most bytes that sequences had reserved within the last 10 to 20 seconds.
class RecentPeak {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPeriod{10};

  // From `now` on, `reserved` bytes are reserved. Returns the recent peak. REQUIRES: no earlier
  // call had a later `now`.
  uint64_t Note(uint64_t reserved, Time now) {
    if (now - begin_ >= kPeriod) {
      before_ = now - begin_ >= 2 * kPeriod ? last_ : peak_;
      peak_ = last_;
      begin_ = now;
    }
    last_ = reserved;
    peak_ = std::max(peak_, reserved);
    return std::max(before_, peak_);
  }

 private:
  Time begin_{};  // of the period that runs
  uint64_t last_ = 0;
  uint64_t peak_ = 0;    // of the period that runs
  uint64_t before_ = 0;  // of the period before
};

// How many of `idle` bytes to give back. Idle bytes may be as many as those that sequences have
// reserved, or as many as they had at the recent peak and have no more, plus kIdleBytesKept. So a
// store that was full once and is then empty soon holds little, and a server whose sessions come
// and go seldom writes to new memory. (In a virtual machine the first write to a huge page takes 3
// ms. A new session's prompt of 512 tokens took 1.3 times as long if it had to write to new
// memory.) Reserved and idle bytes together stay within the limit. More than necessary is given
// back at a time, because each time costs a search through the pools.
uint64_t IdleBytesToReturn(uint64_t idle, uint64_t reserved, uint64_t recent_peak, uint64_t limit);

// Gives the memory of the free pieces [first, last) back to the system, so that they are zero when
// they are next used. Piece i begins at i * piece_bytes. A page of the system that also holds a
// part of a taken piece stays, and only the part of the free pieces is zeroed. Empty pieces of the
// same huge page are returned too, except the last piece of `memory`, which may be a spare one
// without an id.
void ReturnPieces(DeviceMemory& memory, size_t piece_bytes, const IdPool& ids, size_t first,
                  size_t last);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_IDLE_MEMORY_H_
