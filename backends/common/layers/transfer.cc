// Staging of a step's arguments and results.
#include "backends/common/layers/transfer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace longstream {

StagedMemory::~StagedMemory() {
  if (host_ != nullptr) device_.ReleaseStaging(host_);
}

void StagedMemory::Reserve(size_t size) {
  if (device_.host_memory() || size <= memory_.size()) return;
  const size_t grown = std::max(size, 2 * memory_.size());
  DeviceMemory memory(device_, grown, "arguments of a step");
  auto* host = static_cast<std::byte*>(device_.AllocateStaging(grown));
  if (host == nullptr) throw std::bad_alloc();
  if (host_ != nullptr) device_.ReleaseStaging(host_);
  memory_ = std::move(memory);
  host_ = host;
}

const void* Arguments::Place(const void* data, size_t size) {
  if (memory_.device().host_memory()) return data;
  assert(used_ + size <= memory_.size());
  if (size > 0) std::memcpy(memory_.host() + used_, data, size);
  const void* placed = memory_.data() + used_;
  used_ += TransferBytes(size, 1);
  return placed;
}

void Arguments::Upload() {
  if (used_ > 0) memory_.device().Upload(memory_.data(), memory_.host(), used_);
}

void Results::Begin() {
  arrays_.clear();
  used_ = 0;
}

void* Results::Place(void* data, size_t size) {
  if (memory_.device().host_memory()) return data;
  assert(used_ + size <= memory_.size());
  arrays_.push_back({data, used_, size});
  void* placed = memory_.data() + used_;
  used_ += TransferBytes(size, 1);
  return placed;
}

OpStatus Results::Download() {
  Device& device = memory_.device();
  if (used_ > 0) device.Download(memory_.host(), memory_.data(), used_);
  const OpStatus status = device.Synchronize();
  for (const Array& array : arrays_) {
    if (array.size > 0) std::memcpy(array.host, memory_.host() + array.offset, array.size);
  }
  return status;
}

}  // namespace longstream
