// Arrays on their way from the host to the ops of a device. One copy moves many arrays. If the
// device's memory is the host's, nothing is copied.
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

// The most steps that a device has been given and the host has not waited for.
inline constexpr size_t kMaxStepsInFlight = 2;

// Host memory from and to which copies are fastest (Device::AllocateStaging).
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

// The bytes that an array takes in a transfer.
constexpr size_t TransferBytes(size_t count, size_t size) { return (count * size + 63) / 64 * 64; }

// Arrays that the host fills for one step and the step's ops read. In the device's memory they lie
// one after the other, and the arrays of the next step replace them. On the host, each step in
// flight has staging memory of its own. Not thread-safe.
class Arguments {
 public:
  explicit Arguments(Device& device) : device_(device) {}

  // Makes room for arrays of `size` bytes together. Does nothing if the device's memory is the
  // host's or if there is enough room. Otherwise waits for the device, makes it forget its recorded
  // work (Device::ForgetWork), and drops the arrays that were there. Throws
  // BackendError(LS_RESOURCE_EXHAUSTED) or std::bad_alloc.
  void Reserve(size_t size);

  // Begins a new step and drops the arrays added so far. REQUIRES: the host has waited for the step
  // before the previous one; if the device's memory is the host's, no op reads the arrays any more.
  void Begin();

  // Adds an array. Returns it as ops see it after Upload. If the device's memory is the host's,
  // that is `values` itself, which must stay there. REQUIRES: there is room for TransferBytes of
  // it.
  template <typename T>
  const T* Add(std::span<const T> values) {
    return static_cast<const T*>(Place(values.data(), values.size_bytes()));
  }
  template <typename T>
  const T* Add(const std::vector<T>& values) {
    return Add(std::span<const T>(values));
  }

  // Copies the arrays to the device. Must come after the last Add. Ops that are called from now on
  // may read the arrays.
  void Upload();

 private:
  const void* Place(const void* data, size_t size);

  Device& device_;
  DeviceMemory memory_;
  std::array<StagingMemory, kMaxStepsInFlight> staging_;
  size_t step_ = 0;  // the index of the staging memory that is being filled
  size_t used_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_STEP_TRANSFER_H_
