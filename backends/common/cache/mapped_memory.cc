// Zeroed memory from mmap.
#include "backends/common/cache/mapped_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "backends/common/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LONGSTREAM_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LONGSTREAM_ADDRESS_SANITIZER 1
#endif
#ifdef LONGSTREAM_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace longstream {

MappedMemory::MappedMemory(size_t size, const char* what) : size_(size) {
  if (size == 0) return;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    throw BackendError(LS_RESOURCE_EXHAUSTED, std::string(what) + ": mapping " +
                                                  std::to_string(size) + " bytes of address space" +
                                                  " failed: " + std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(data);
}

MappedMemory::~MappedMemory() {
  if (data_ == nullptr) return;
  // The addresses may be mapped again, by someone who knows nothing of the poison.
  Unpoison(0, poisoned_end_);
  munmap(data_, size_);
}

#ifdef LONGSTREAM_ADDRESS_SANITIZER
void MappedMemory::Poison(size_t offset, size_t size) {
  poisoned_end_ = std::max(poisoned_end_, offset + size);
  __asan_poison_memory_region(data_ + offset, size);
}
void MappedMemory::Unpoison(size_t offset, size_t size) {
  __asan_unpoison_memory_region(data_ + offset, size);
}
#else
void MappedMemory::Poison(size_t, size_t) {}
void MappedMemory::Unpoison(size_t, size_t) {}
#endif

}  // namespace longstream
