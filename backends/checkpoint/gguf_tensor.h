// Tensors that are computed from those of a GGUF file.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_TENSOR_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_TENSOR_H_

#include <memory>

#include "backends/checkpoint/computed_tensor.h"
#include "backends/checkpoint/gguf/gguf_config.h"
#include "backends/checkpoint/gguf/gguf_header.h"
#include "backends/checkpoint/tensor_file.h"

namespace longstream {

// The type of a tensor whose elements lie in the file as they are; nullopt: they are blocks, or
// cannot be weights.
std::optional<DType> PlainTypeOf(const GgufTensorType& type);

// Undoes `conversion`, and computes the elements of blocks in f32. Blocks can also be read as
// groups. LS_UNIMPLEMENTED: the type cannot be read. LS_INVALID_ARGUMENT: the shape does not allow
// the conversion. `file` must outlive the result.
std::unique_ptr<ComputedTensor> MakeGgufTensor(const TensorFile& file, const GgufTensor& stored,
                                               const GgufConversion& conversion);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_TENSOR_H_
