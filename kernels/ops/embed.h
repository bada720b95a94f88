// Embedding lookup: out[t, :] = multiplier * table[ids[t], :].
#ifndef LONGSTREAM_KERNELS_OPS_EMBED_H_
#define LONGSTREAM_KERNELS_OPS_EMBED_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct EmbedArgs {
  PackedWeight table;            // [vocabulary, d], packed, so that a tied head can share it
  const int32_t* ids = nullptr;  // [T] device; REQUIRES: 0 <= id < vocabulary
  float multiplier = 1.0f;
  Matrix out;  // [T, d]
};
using EmbedFunction = void (*)(Stream& stream, const EmbedArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_EMBED_H_
