// Staging of a step's arguments.
#include "backends/model/step/transfer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace longstream {

StagingMemory::StagingMemory(Device& device, size_t size)
    : device_(&device), data_(static_cast<std::byte*>(device.AllocateStaging(size))) {
  if (data_ == nullptr) throw std::bad_alloc();
}

StagingMemory::~StagingMemory() {
  if (data_ != nullptr) device_->ReleaseStaging(data_);
}

void Arguments::Reserve(size_t size) {
  if (device_.host_memory() || size <= memory_.size()) return;
  const size_t grown = std::max(size, 2 * memory_.size());
  DeviceMemory memory(device_, grown, "arguments of a step");
  std::array<StagingMemory, kMaxStepsInFlight> staging;
  for (StagingMemory& one : staging) one = StagingMemory(device_, grown);
  device_.ForgetWork();
  // Waits for uploads that read the staging memory, which is released below.
  memory_ = DeviceMemory();
  memory_ = std::move(memory);
  staging_ = std::move(staging);
}

void Arguments::Begin() {
  step_ = (step_ + 1) % kMaxStepsInFlight;
  used_ = 0;
}

const void* Arguments::Place(const void* data, size_t size) {
  if (device_.host_memory()) return data;
  assert(used_ + size <= memory_.size());
  if (size > 0) std::memcpy(staging_[step_].data() + used_, data, size);
  const void* placed = memory_.data() + used_;
  used_ += TransferBytes(size, 1);
  return placed;
}

void Arguments::Upload() {
  if (used_ > 0) device_.Upload(memory_.data(), staging_[step_].data(), used_);
}

}  // namespace longstream
