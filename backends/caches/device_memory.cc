// Allocates memory of a device, and poisons unused parts for AddressSanitizer.
#include "backends/caches/device_memory.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/errors/error.h"

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

DeviceMemory::DeviceMemory(Device& device, size_t size, const char* what)
    : device_(&device), size_(size) {
  if (size == 0) return;
  data_ = static_cast<std::byte*>(device.Allocate(size));
  if (data_ != nullptr) return;
  const uint64_t free = device.free_bytes();
  throw BackendError(LS_RESOURCE_EXHAUSTED,
                     std::string(what) + ": the device has no " + std::to_string(size) + " bytes" +
                         (free == UINT64_MAX ? "" : ", " + std::to_string(free) + " are free"));
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  // The next owner of these addresses expects them to be accessible.
  Unpoison(0, poisoned_end_);
  device_->Release(data_, size_);
}

void DeviceMemory::SetPieceBytes(size_t bytes) {
  constexpr size_t kLeastForHugePages = size_t{64} << 10;
  if (size_ > 0 && bytes >= kLeastForHugePages) device_->PreferBandwidth(data_, size_);
}

void DeviceMemory::ZeroPoisoned(size_t offset, size_t size) {
  Unpoison(offset, size);
  device_->Zero(data_ + offset, size);
  Poison(offset, size);
}

#ifdef LONGSTREAM_ADDRESS_SANITIZER
void DeviceMemory::Poison(size_t offset, size_t size) {
  if (device_ == nullptr || !device_->host_memory()) return;
  poisoned_end_ = std::max(poisoned_end_, offset + size);
  __asan_poison_memory_region(data_ + offset, size);
}
void DeviceMemory::Unpoison(size_t offset, size_t size) {
  if (device_ == nullptr || !device_->host_memory()) return;
  __asan_unpoison_memory_region(data_ + offset, size);
}
#else
void DeviceMemory::Poison(size_t, size_t) {}
void DeviceMemory::Unpoison(size_t, size_t) {}
#endif

}  // namespace longstream
