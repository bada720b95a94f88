// The host memory of a snapshot or an import, and its queue for copies of device memory.
#ifndef LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SNAPSHOT_MEMORY_H_
#define LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SNAPSHOT_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/caches/cache_store.h"
#include "backends/caches/segments/segment_format.h"
#include "kernels/core/device.h"

namespace longstream {

// Host memory that a device copies to and from fastest.
class HostBuffer {
 public:
  // Throws BackendError(LS_RESOURCE_EXHAUSTED). `device` must outlive the buffer.
  HostBuffer(Device& device, size_t size);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  std::byte* data() const { return data_; }

 private:
  Device& device_;
  std::byte* const data_;
};

// The destructor belongs to the engine's thread. Everything else may run on any thread, one at a
// time.
class SnapshotMemory {
 public:
  // `store` must outlive the memory. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  explicit SnapshotMemory(CacheStore& store);

  // The places of a copy of a fixed block. The copy is in host memory.
  const FixedPlaces& copy() const { return copy_; }
  // Host memory through which the pages of a device pass. Empty if pages are in host memory.
  std::span<std::byte> stage() const {
    return stage_ == nullptr ? std::span<std::byte>() : std::span(stage_->data(), kStageBytes);
  }
  TransferQueue& queue() const { return *queue_; }

 private:
  // Large enough that a copy's start costs little beside its bytes.
  static constexpr size_t kStageBytes = size_t{1} << 20;

  HostBuffer copied_;
  FixedPlaces copy_;
  std::unique_ptr<HostBuffer> stage_;  // nullptr: pages are in host memory
  std::unique_ptr<TransferQueue> queue_;
};

// Keeps a few SnapshotMemory for the next snapshots, because a device takes long to allocate host
// memory. Not thread-safe.
class SnapshotMemoryPool {
 public:
  explicit SnapshotMemoryPool(CacheStore& store) : store_(store) {}

  CacheStore& store() const { return store_; }
  // Throws BackendError(LS_RESOURCE_EXHAUSTED).
  std::unique_ptr<SnapshotMemory> Take();
  void Give(std::unique_ptr<SnapshotMemory> memory);

 private:
  static constexpr size_t kMostKept = 2;

  CacheStore& store_;
  std::vector<std::unique_ptr<SnapshotMemory>> kept_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SNAPSHOT_MEMORY_H_
