// The blocks of GGUF's quantised tensors.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_BLOCKS_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/core/dtype.h"
#include "kernels/core/quantise.h"

namespace longstream {

// A type of blocks that can be read. Blocks may be misaligned, and any bytes are valid: a scale
// that is not finite gives numbers that are not. Each function is thread-safe.
struct GgufBlocks {
  std::string_view name;  // "Q4_K"
  int64_t elements;       // of a block
  int64_t bytes;          // of a block
  // Computes the block's numbers [elements], as ggml does, in single precision.
  void (*numbers)(const std::byte* block, float* to);
  // The block as one group of this type with the same numbers; nullptr: there is no such group.
  WeightGroup (*group)(const std::byte* block) = nullptr;
  // The type of `group`; for the other types, the type of groups that are close to the numbers.
  DType groups = DType::kI8;
};

// All types of blocks that can be read.
std::span<const GgufBlocks> AllGgufBlocks();
// nullptr: blocks of this type cannot be read.
const GgufBlocks* FindGgufBlocks(std::string_view name);

// Computes the groups [blocks * elements / 32] of `count` blocks. Groups have the same numbers as
// the blocks where type.group is set; otherwise they are the nearest int8 groups.
void GroupsOfBlocks(const GgufBlocks& type, const std::byte* blocks, int64_t count,
                    WeightGroup* to);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_BLOCKS_H_
