// Bytes of a model's cache budget, divided into pages and other memory.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_POOL_BYTES_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_POOL_BYTES_H_

#include <cstdint>

#include "backends/api/backend.h"

namespace longstream {

// Bytes of the two kinds of cache memory. A device may have a separate pool for each kind.
struct PoolBytes {
  uint64_t pages = 0;
  uint64_t fixed = 0;  // rings, states and rollback copies

  uint64_t total() const { return pages + fixed; }
};

// Bytes of the pages that hold `tokens` tokens of one sequence.
inline uint64_t PageBytes(const ls_model_info& info, uint64_t tokens) {
  if (info.page_tokens == 0) return 0;
  const uint64_t pages = (tokens + info.page_tokens - 1) / info.page_tokens;
  return pages * info.page_tokens * info.kv_bytes_per_token;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_POOL_BYTES_H_
