// An owned piece of a device's memory.
#ifndef LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_
#define LONGSTREAM_BACKENDS_CACHES_DEVICE_MEMORY_H_

#include <cstddef>
#include <utility>

#include "kernels/core/device.h"

namespace longstream {

// Zeroed. On a host it costs nothing until it is touched (HostDevice::Allocate); on any other
// device it is there from the beginning. It never moves.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws BackendError(LS_RESOURCE_EXHAUSTED) where the device has no such memory; `what` names
  // the purpose in that sentence. size 0 allocates nothing. `device` must outlive the memory.
  DeviceMemory(Device& device, size_t size, const char* what);
  ~DeviceMemory();

  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  // It is used in pieces of so many bytes. Of large ones an address lookup that fails costs as much
  // as reading some cache lines, of small ones huge pages would be mostly empty: Device's
  // PreferBandwidth from 64 KiB on.
  void SetPieceBytes(size_t bytes);

  // Aligned to 256 bytes at least; nullptr where size is 0.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Under AddressSanitizer any access to these bytes is an error from now on (or no longer one);
  // otherwise, and where the memory is not the host's, nothing.
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
