// Near rings of ReRoPE layers, rebuilt from the pages after a rollback or an import.
#ifndef LONGSTREAM_BACKENDS_MODEL_MIXERS_NEAR_RINGS_H_
#define LONGSTREAM_BACKENDS_MODEL_MIXERS_NEAR_RINGS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/caches/cache_layout.h"
#include "backends/caches/device_memory.h"
#include "backends/caches/sequence_cache.h"
#include "backends/model/step/position_tables.h"
#include "backends/model/step/transfer.h"
#include "kernels/core/stream.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Not thread-safe. The constructor's arguments must outlive the object.
class NearRings {
 public:
  // Throws BackendError(LS_RESOURCE_EXHAUSTED).
  NearRings(const CacheLayout& layout, const PositionTables& tables, const OpTable& ops,
            Device& device);

  // Allocates the memory that Rebuild needs for a sequence of that many pages; Rebuild then
  // allocates nothing. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void Prepare(size_t num_pages);

  // Fills the near rings of a sequence from its pages, if the rings are stale. Waits for the
  // device.
  OpStatus Rebuild(Stream stream, SequenceCache& cache);

  uint64_t bytes() const { return rope_.size() + positions_.size() * sizeof(int64_t); }

 private:
  void RebuildLayer(Stream& stream, const SequenceCache& cache, size_t layer);

  const PositionTables& tables_;
  const OpTable& ops_;
  std::vector<int64_t> positions_;  // positions of a block; empty if no layer has a near ring
  DeviceMemory rope_;               // f32
  Arguments arguments_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_MIXERS_NEAR_RINGS_H_
