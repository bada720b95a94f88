// Memory for all the weights of a model, in one piece.
#ifndef LONGSTREAM_BACKENDS_PACKING_WEIGHT_MEMORY_H_
#define LONGSTREAM_BACKENDS_PACKING_WEIGHT_MEMORY_H_

#include <cstddef>

#include "backends/spec/model_weights.h"
#include "kernels/core/device.h"

namespace longstream {

// Zeroed, aligned to kWeightAlignment. Blocks in it begin at multiples of that.
inline constexpr size_t kWeightAlignment = 256;

// Of the host: anonymous, there when it is first written; from 8 MiB on as `host`, whose memory is
// the host's, prefers it for bandwidth. More than is left of the host's memory, or of a control
// group's, is refused: all of it will be written, and who takes too much is killed, with all other
// models. Throws BackendError(LS_RESOURCE_EXHAUSTED).
OwnedMemory AllocateHostWeights(size_t bytes, Device& host = HostMemory());

// Of a device, which must outlive it; where that is the host's, the same.
OwnedMemory AllocateWeights(Device& device, size_t bytes);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_WEIGHT_MEMORY_H_
