// Arrays on their way between a host and the ops of its device: one copy for many of them, and none
// where the memory is the host's.
#ifndef LONGSTREAM_BACKENDS_COMMON_LAYERS_TRANSFER_H_
#define LONGSTREAM_BACKENDS_COMMON_LAYERS_TRANSFER_H_

#include <cstddef>
#include <span>
#include <vector>

#include "backends/common/cache/device_memory.h"
#include "kernels/core/device.h"

namespace longstream {

// Memory of a device and, where that is not the host's, as much on the host to copy from or to.
class StagedMemory {
 public:
  explicit StagedMemory(Device& device) : device_(device) {}
  ~StagedMemory();
  StagedMemory(const StagedMemory&) = delete;
  StagedMemory& operator=(const StagedMemory&) = delete;

  // Room for arrays of `size` bytes together. Nothing where the memory is the host's, or where
  // there is room already. What it held is lost. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void Reserve(size_t size);

  Device& device() const { return device_; }
  std::byte* host() const { return host_; }
  std::byte* data() const { return memory_.data(); }
  size_t size() const { return memory_.size(); }

 private:
  Device& device_;
  DeviceMemory memory_;
  std::byte* host_ = nullptr;
};

// Bytes that an array takes in a transfer.
constexpr size_t TransferBytes(size_t count, size_t size) { return (count * size + 63) / 64 * 64; }

// Arrays that a host has filled, for ops to read. Not thread-safe.
class Arguments {
 public:
  explicit Arguments(Device& device) : memory_(device) {}

  void Reserve(size_t size) { memory_.Reserve(size); }

  // Begins anew. REQUIRES: the device has been waited for since the last Upload.
  void Begin() { used_ = 0; }

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

  StagedMemory memory_;
  size_t used_ = 0;
};

// Arrays that ops fill, for a host to read. Not thread-safe.
class Results {
 public:
  explicit Results(Device& device) : memory_(device) {}

  void Reserve(size_t size) { memory_.Reserve(size); }
  void Begin();

  // Where ops write what `values` holds after Download: the array itself where memory is the
  // host's. REQUIRES: room, in TransferBytes; `values` stays there until Download.
  template <typename T>
  T* Add(std::span<T> values) {
    return static_cast<T*>(Place(values.data(), values.size_bytes()));
  }

  // Waits for the ops and fills the arrays. Their contents are of no meaning unless kOk.
  OpStatus Download();

 private:
  struct Array {
    void* host;
    size_t offset;
    size_t size;
  };

  void* Place(void* data, size_t size);

  StagedMemory memory_;
  std::vector<Array> arrays_;
  size_t used_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_LAYERS_TRANSFER_H_
