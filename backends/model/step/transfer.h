// Arrays on their way from a host to the ops of its device: one copy for many of them, and none
// where the memory is the host's.
#ifndef LONGSTREAM_BACKENDS_MODEL_STEP_TRANSFER_H_
#define LONGSTREAM_BACKENDS_MODEL_STEP_TRANSFER_H_

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "backends/caches/device_memory.h"
#include "kernels/core/device.h"

namespace longstream {

// Steps that a device may have been asked for and not been waited for.
inline constexpr size_t kMaxStepsInFlight = 2;

// Host memory that copies to and from a device are fastest with (Device::AllocateStaging).
class StagingMemory {
 public:
  StagingMemory() = default;
  // Throws std::bad_alloc. size > 0; `device` must outlive the memory.
  StagingMemory(Device& device, size_t size);
  ~StagingMemory();
  StagingMemory(StagingMemory&& other) noexcept { swap(other); }
  StagingMemory& operator=(StagingMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }

 private:
  void swap(StagingMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
  }

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
};

// Bytes that an array takes in a transfer.
constexpr size_t TransferBytes(size_t count, size_t size) { return (count * size + 63) / 64 * 64; }

// Arrays that a host has filled for one step, for its ops to read. They lie one after the other in
// the device's memory, where those of the next step take their place; on the host each step in
// flight has memory of its own. Not thread-safe.
class Arguments {
 public:
  explicit Arguments(Device& device) : device_(device) {}

  // Room for arrays of `size` bytes together. Nothing where the memory is the host's, or where
  // there is room already; else what was there is lost, the device is waited for, and it forgets
  // its work. Throws BackendError(LS_RESOURCE_EXHAUSTED) or std::bad_alloc.
  void Reserve(size_t size);

  // Begins anew. REQUIRES: the device has been waited for since the Upload before the last, and
  // where memory is the host's, it is not read any more.
  void Begin();

  // `values` as ops see them after Upload: the array itself where memory is the host's, in which
  // case it must stay there. REQUIRES: room, in TransferBytes.
  template <typename T>
  const T* Add(std::span<const T> values) {
    return static_cast<const T*>(Place(values.data(), values.size_bytes()));
  }
  template <typename T>
  const T* Add(const std::vector<T>& values) {
    return Add(std::span<const T>(values));
  }

  // After the last Add: ops called from now on may read the arrays.
  void Upload();

 private:
  const void* Place(const void* data, size_t size);

  Device& device_;
  DeviceMemory memory_;
  std::array<StagingMemory, kMaxStepsInFlight> staging_;
  size_t step_ = 0;  // whose staging is filled
  size_t used_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_STEP_TRANSFER_H_
