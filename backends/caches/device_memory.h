// An owned piece of a device's memory.
#ifndef LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_
#define LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_

#include <cstddef>
#include <utility>

#include "kernels/core/device.h"

namespace longstream {

// Zeroed; it never moves. On a host it costs nothing until it is touched (HostDevice::Allocate);
// any other device allocates it at once.
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

  // Says that the memory is used in pieces of `bytes` bytes. From 64 KiB on this calls
  // Device::PreferBandwidth: in large pieces a failed address lookup costs as much as reading some
  // cache lines; for small ones huge pages would be mostly empty.
  void SetPieceBytes(size_t bytes);

  // Aligned to 256 bytes at least; nullptr where size is 0.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Under AddressSanitizer, any access to poisoned bytes is an error, until Unpoison. Otherwise,
  // and for memory that is not the host's, both do nothing.
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
  size_t poisoned_end_ = 0;  // no byte from here on has ever been poisoned
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_
