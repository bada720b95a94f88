// Stores a step's keys and values in the rings, after the step's attention has read the rings.
#ifndef LONGSTREAM_KERNELS_OPS_CACHE_RING_WRITE_H_
#define LONGSTREAM_KERNELS_OPS_CACHE_RING_WRITE_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

// If a piece is longer than the ring, only its last ring.slots rows are stored.
struct RingWriteArgs {
  BatchLayout batch;
  Matrix k;    // [T, H_kv * D] of the ring's type
  Matrix v{};  // [T, H_kv * value_slices * D]; data nullptr: the ring holds only keys
  RingCache ring;
};
using RingWriteFunction = void (*)(Stream& stream, const RingWriteArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_CACHE_RING_WRITE_H_
