// Stores a step's keys (and values) into the rings, after the step's attention has read them.
#ifndef LONGSTREAM_KERNELS_OPS_CACHE_RING_WRITE_H_
#define LONGSTREAM_KERNELS_OPS_CACHE_RING_WRITE_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

// Of a piece longer than the ring only its last ring.slots rows are kept.
struct RingWriteArgs {
  BatchLayout batch;
  Matrix k;    // [T, H_kv * D] of the ring's type
  Matrix v{};  // [T, H_kv * value_slices * D]; data nullptr where the ring holds keys only
  RingCache ring;
};
using RingWriteFunction = void (*)(Stream& stream, const RingWriteArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_CACHE_RING_WRITE_H_
