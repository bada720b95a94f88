// Memory for all the weights of a model, in one piece.
#ifndef LONGSTREAM_BACKENDS_PACKING_WEIGHT_MEMORY_H_
#define LONGSTREAM_BACKENDS_PACKING_WEIGHT_MEMORY_H_

#include <cstddef>

#include "backends/spec/model_weights.h"
#include "kernels/core/device.h"

namespace longstream {

// The memory is zeroed and aligned to this. Blocks in it begin at multiples of it.
inline constexpr size_t kWeightAlignment = 256;

// Anonymous host memory; a page of it takes memory when it is first written. From 8 MiB on, `host`
// (a device whose memory is the host's) prepares it for bandwidth. More memory than the host or its
// control group has left is refused: all of it will be written, and the system would kill the
// process, with all other models. Throws BackendError(LS_RESOURCE_EXHAUSTED).
OwnedMemory AllocateHostWeights(size_t bytes, Device& host = HostMemory());

// Memory of `device`, which must outlive it. If the device's memory is the host's, this is
// AllocateHostWeights.
OwnedMemory AllocateWeights(Device& device, size_t bytes);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_WEIGHT_MEMORY_H_
