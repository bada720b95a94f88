// From a checkpoint's tensors to the packed weights that a decoder reads.
#ifndef LONGSTREAM_BACKENDS_PACKING_LOAD_WEIGHTS_H_
#define LONGSTREAM_BACKENDS_PACKING_LOAD_WEIGHTS_H_

#include "backends/checkpoint/load_options.h"
#include "backends/checkpoint/safetensors.h"
#include "backends/packing/packed_cache.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Reads every tensor that `spec` calls for under its Hugging Face name (docs/checkpoints.md), packs
// it with `ops.pack` in the type that `options` asks for, and compresses it. At no time much more
// than the packed weights is resident: of the file some 16 MiB, however large a tensor is. What it
// does is spread over `executor`'s threads. Weights
// are packed on the host and, where `device` has memory of its own, brought there one by one. The
// result owns its memory, which is the device's; `checkpoint` may be destroyed, `device` must
// outlive it.
//
// Where packed weights are kept (packed_cache.h; in the host's memory only) and those of an earlier
// start fit, they are read in place of all that. `log` is told.
//
// BackendError: LS_INVALID_ARGUMENT for a tensor that is missing, of another shape or of a type
// that holds no weights; LS_UNIMPLEMENTED for one that the spec does not read and that is not known
// to be harmless, for it would change the mathematics; LS_RESOURCE_EXHAUSTED where the device has
// no memory for the weights; LS_DATA_LOSS where a file cannot be read to its end, and
// LS_UNAVAILABLE where somebody wrote to one meanwhile.
//
// The fingerprint depends on names, types, shapes and bytes of the tensors read and on the types
// they were packed in; not on the file layout (shards), the kernel library or the thread count.
ModelWeights LoadWeights(const ModelSpec& spec, const Checkpoint& checkpoint,
                         const LoadOptions& options, const OpTable& ops, const Executor& executor,
                         Device& device = HostMemory(), const LoadLog& log = nullptr);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_LOAD_WEIGHTS_H_
