// A block of a device's memory, released by its owner's destructor.
#ifndef LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_
#define LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_

#include <cstddef>
#include <utility>

#include "kernels/core/device.h"

namespace longstream {

// The memory is zeroed and never moves. On a host it uses no memory until it is touched
// (HostDevice::Allocate); any other device allocates it at once.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws BackendError(LS_RESOURCE_EXHAUSTED) if the device has too little memory; `what` names
  // the purpose in the sentence. size 0 allocates nothing. `device` must outlive the memory.
  DeviceMemory(Device& device, size_t size, const char* what);
  ~DeviceMemory();

  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  // Tells the device that the memory is used in pieces of `bytes` bytes. For pieces of 64 KiB or
  // more this calls Device::PreferBandwidth. In such pieces a TLB miss costs as much as reading
  // some cache lines, so huge pages pay; with small pieces huge pages would be mostly unused.
  void SetPieceBytes(size_t bytes);

  // Device::Discard for a part of the memory.
  void Discard(size_t offset, size_t size) { device_->Discard(data_ + offset, size); }

  // Zeroes a part of the memory that may be poisoned, and poisons it again.
  void ZeroPoisoned(size_t offset, size_t size);

  // Aligned to at least 256 bytes; nullptr if size is 0.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Under AddressSanitizer, an access to poisoned bytes is an error until Unpoison. Without it, and
  // for memory that is not the host's, both functions do nothing.
  void Poison(size_t offset, size_t size);
  void Unpoison(size_t offset, size_t size);

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(poisoned_end_, other.poisoned_end_);
  }

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t poisoned_end_ = 0;  // no byte at or after this offset was ever poisoned
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_
