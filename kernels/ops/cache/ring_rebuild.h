// Fills a ReRoPE near ring from the pages: near_j is main_j, the key in the pages, rotated by rope
// and rounded. The op is used after a fork, an import, or a rollback beyond the ring's slack. It
// gives the same bits as RopeCacheWrite.
#ifndef LONGSTREAM_KERNELS_OPS_CACHE_RING_REBUILD_H_
#define LONGSTREAM_KERNELS_OPS_CACHE_RING_REBUILD_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/stream.h"

namespace longstream {

// Rebuilds positions [begin, end) of one sequence. REQUIRES: end - begin <= ring.slots.
struct RingRebuildArgs {
  PagedCache cache;
  const int32_t* page_table = nullptr;  // [ceil(end / page_tokens)] device
  RingCache ring;                       // of the pages' type, or bf16 for int8 pages
  int32_t slot = 0;
  int64_t begin = 0;
  int64_t end = 0;
  const float* rope = nullptr;  // [end - begin, D] from RopeTable for those positions
};
using RingRebuildFunction = void (*)(Stream& stream, const RingRebuildArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_CACHE_RING_REBUILD_H_
