// Wakes readers on all threads of the pool.
#include "service/engine/turn/reader_wakes.h"

#include <cstdint>

namespace longstream {

void ReaderWakes::Run() {
  ParallelFor(executor_, static_cast<uint32_t>(wakes_.size()), [&](uint32_t i) {
    wakes_[i]();
    wakes_[i] = nullptr;  // frees its captures on the same thread
  });
  wakes_.clear();
}

}  // namespace longstream
