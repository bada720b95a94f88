// How memory for caches is divided among models, as a function of plain values.
#ifndef LONGSTREAM_SERVICE_MODELS_MEMORY_DIVISION_H_
#define LONGSTREAM_SERVICE_MODELS_MEMORY_DIVISION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/api/backend.h"

namespace longstream {

// The bytes that a model needs for its caches. UINT64_MAX: more than there is. A model that is not
// loaded yet has a batch of UINT64_MAX and zeros, so that an equal part is kept for it.
struct CacheNeed {
  uint64_t least = 0;    // for a session of one token
  uint64_t session = 0;  // for a session that fills the context
  uint64_t batch = 0;    // for as many such sessions as compute at the same time
  uint64_t held = 0;     // what the model's sessions have reserved now

  static CacheNeed Of(const ls_model_info& info, uint32_t max_batch_sequences);
};

struct MemoryShares {
  std::vector<uint64_t> bytes;  // for each model, in the order of the needs
  bool settled = true;          // false: a model holds more than it would get, and keeps it for now
};

// Divides `bytes` in stages. First each model gets room for its smallest session, then for one full
// session, then for a full batch. If there is too little for a stage, the models with the smallest
// shares get more, up to a common level or to what the stage needs. The rest after the last
// stage is divided in proportion to the batches. A model never gets less than it holds; the others
// then share the rest. The sum of the shares is at most `bytes`, or what the models hold if that is
// more.
MemoryShares DivideMemory(uint64_t bytes, std::span<const CacheNeed> needs);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_MEMORY_DIVISION_H_
