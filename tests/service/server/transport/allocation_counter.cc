// Replaces the functions of malloc by functions that count and call glibc's.
#include "tests/service/server/transport/allocation_counter.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
}

namespace longstream {
namespace {

std::atomic<int64_t> allocated{0};
std::atomic<int64_t> peak{0};

void* Count(void* block) {
  if (block == nullptr) return block;
  const auto size = static_cast<int64_t>(malloc_usable_size(block));
  const int64_t now = allocated.fetch_add(size) + size;
  int64_t highest = peak.load();
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
  return block;
}

void Uncount(void* block) {
  if (block != nullptr) allocated.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)));
}

}  // namespace

int64_t AllocatedBytes() { return allocated.load(); }
int64_t PeakAllocatedBytes() { return peak.load(); }
void ResetPeak() { peak.store(allocated.load()); }

}  // namespace longstream

using longstream::Count;
using longstream::Uncount;

extern "C" {

void* malloc(size_t size) { return Count(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return Count(__libc_calloc(count, size)); }
void* memalign(size_t alignment, size_t size) { return Count(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
// The old and the new block may exist at the same time, so the new one counts first.
void* realloc(void* block, size_t size) {
  const size_t old_size = block == nullptr ? 0 : malloc_usable_size(block);
  void* const moved = Count(__libc_realloc(block, size));
  if (moved != nullptr || size == 0) {
    longstream::allocated.fetch_sub(static_cast<int64_t>(old_size));
  }
  return moved;
}
void free(void* block) {
  Uncount(block);
  __libc_free(block);
}

}  // extern "C"
