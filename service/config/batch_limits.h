// The default limits of a step.
#ifndef LONGSTREAM_SERVICE_CONFIG_BATCH_LIMITS_H_
#define LONGSTREAM_SERVICE_CONFIG_BATCH_LIMITS_H_

#include <cstdint>

namespace longstream {

// Rows of a step: enough for a prompt piece of 512 tokens beside 64 decode rows.
inline constexpr uint32_t kDefaultBatchTokens = 576;
// Entries of a step, one for each sequence in it.
inline constexpr uint32_t kDefaultBatchSequences = 64;

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_BATCH_LIMITS_H_
