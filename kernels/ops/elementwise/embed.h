// Embedding lookup: out[t, :] = multiplier * table[id(t), :].
//
//   id(t) = ids[t] if ids[t] >= 0, else sampled[~ids[t]]
//
// So a step can read a token that the step before it samples, without the host in between. If no
// token was sampled (sampled[~ids[t]] < 0), the row is zeros.
#ifndef LONGSTREAM_KERNELS_OPS_ELEMENTWISE_EMBED_H_
#define LONGSTREAM_KERNELS_OPS_ELEMENTWISE_EMBED_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct EmbedArgs {
  PackedWeight table;  // [vocabulary, d], packed, so that the language-model head can share it
  const int32_t* ids = nullptr;  // [T] device; REQUIRES: id(t) < vocabulary
  float multiplier = 1.0f;
  Matrix out;                        // [T, d]
  const int32_t* sampled = nullptr;  // [max of ~ids[t] + 1] device; nullptr if no id is negative
};
using EmbedFunction = void (*)(Stream& stream, const EmbedArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ELEMENTWISE_EMBED_H_
