// Allocates the host memory of snapshots and imports.
#include "backends/caches/segments/snapshot_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/errors/error.h"

namespace longstream {
namespace {

// Bytes of a copy: the slot without near rings, then the keys and values of a page, layer by layer.
size_t CopyBytes(const CacheLayout& layout) {
  return static_cast<size_t>(layout.rollback_stride()) + layout.page_bytes;
}

FixedPlaces PlacesIn(const CacheLayout& layout, std::byte* data) {
  FixedPlaces places;
  places.slot = data;
  places.last_page.resize(layout.layers.size());
  std::byte* next = data + layout.rollback_stride();
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    if (!layout.layers[i].paged) continue;
    const PagedLayout& paged = *layout.layers[i].paged;
    places.last_page[i] = {next, next + paged.key_bytes(layout.page_type)};
    next += paged.key_bytes(layout.page_type) + paged.value_bytes(layout.page_type);
  }
  return places;
}

}  // namespace

HostBuffer::HostBuffer(Device& device, size_t size)
    : device_(device), data_(static_cast<std::byte*>(device.AllocateStaging(size))) {
  if (data_ != nullptr) return;
  throw BackendError(LS_RESOURCE_EXHAUSTED, "snapshot: the host's memory has no room for " +
                                                std::to_string(size) + " bytes");
}

HostBuffer::~HostBuffer() { device_.ReleaseStaging(data_); }

SnapshotMemory::SnapshotMemory(CacheStore& store)
    : copied_(store.device, std::max<size_t>(CopyBytes(store.layout), 1)),
      copy_(PlacesIn(store.layout, copied_.data())),
      stage_(store.device.host_memory() ? nullptr
                                        : std::make_unique<HostBuffer>(store.device, kStageBytes)),
      queue_(store.device.MakeTransferQueue()) {
  if (queue_ != nullptr) return;
  throw BackendError(LS_RESOURCE_EXHAUSTED, "snapshot: the device has no room for another queue");
}

std::unique_ptr<SnapshotMemory> SnapshotMemoryPool::Take() {
  if (kept_.empty()) return std::make_unique<SnapshotMemory>(store_);
  std::unique_ptr<SnapshotMemory> memory = std::move(kept_.back());
  kept_.pop_back();
  return memory;
}

void SnapshotMemoryPool::Give(std::unique_ptr<SnapshotMemory> memory) {
  memory->queue().Wait();  // copies of an abandoned read or write may still use the memory
  if (kept_.size() < kMostKept) kept_.push_back(std::move(memory));
}

}  // namespace longstream
