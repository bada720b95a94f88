// Zeroed memory that costs nothing until it is touched.
#ifndef LONGSTREAM_BACKENDS_COMMON_CACHE_MAPPED_MEMORY_H_
#define LONGSTREAM_BACKENDS_COMMON_CACHE_MAPPED_MEMORY_H_

#include <cstddef>
#include <utility>

namespace longstream {

// An anonymous private mapping without reserved swap: address space now, memory page by page when
// it is first written. Stores are therefore as large as they could ever become, and never move.
class MappedMemory {
 public:
  MappedMemory() = default;
  // Throws BackendError(LS_RESOURCE_EXHAUSTED) where the system has no such address space. `what`
  // names the purpose in that sentence. size 0 maps nothing.
  MappedMemory(size_t size, const char* what);
  ~MappedMemory();

  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        poisoned_end_(std::exchange(other.poisoned_end_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(poisoned_end_, other.poisoned_end_);
    return *this;
  }

  // Aligned to the system's page; nullptr where size is 0.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Under AddressSanitizer any access to these bytes is an error from now on (or no longer one);
  // otherwise nothing.
  void Poison(size_t offset, size_t size);
  void Unpoison(size_t offset, size_t size);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t poisoned_end_ = 0;  // no byte from here on has ever been poisoned
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_CACHE_MAPPED_MEMORY_H_
