// From a checkpoint's tensors to the packed weights that a decoder reads.
#ifndef LONGSTREAM_BACKENDS_PACKING_LOAD_WEIGHTS_H_
#define LONGSTREAM_BACKENDS_PACKING_LOAD_WEIGHTS_H_

#include "backends/checkpoint/checkpoint.h"
#include "backends/checkpoint/load_options.h"
#include "backends/packing/packed_cache.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Reads every tensor that `spec` needs, by its Hugging Face name (docs/checkpoints.md), packs it
// with `ops.pack` in the type that `options` asks for, and compresses it. Memory: the packed
// weights and about 16 MiB of a tensor's rows, however large it is; for a computed tensor also the
// stored bytes of these rows. The work is spread over `executor`'s threads. Weights are packed on
// the host; if `device` has its own memory, they are copied there one by one. The result owns its
// memory, which is the device's. `checkpoint` may be destroyed; `device` must outlive the result.
//
// Only if the device's memory is the host's: if packed weights are kept (packed_cache.h) and the
// file of an earlier start fits, that file is read instead. `log` receives a sentence about it.
//
// BackendError: LS_INVALID_ARGUMENT if a tensor is missing, has another shape or a type that holds
// no weights; LS_UNIMPLEMENTED if the checkpoint has a tensor that the spec does not read and that
// is not known to be harmless, because it would change the mathematics; LS_RESOURCE_EXHAUSTED if
// the device has no memory for the weights; LS_DATA_LOSS if a file cannot be read to its end;
// LS_UNAVAILABLE if a file was written to meanwhile.
//
// The fingerprint depends on names, types, shapes and bytes of the tensors read and on the types
// that they are packed in. It does not depend on shards, the kernel library or the thread count.
ModelWeights LoadWeights(const ModelSpec& spec, const Checkpoint& checkpoint,
                         const LoadOptions& options, const OpTable& ops, const Executor& executor,
                         Device& device = HostMemory(), const LoadLog& log = nullptr);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_LOAD_WEIGHTS_H_
