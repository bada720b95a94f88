// The default limits of a step, and how long a turn keeps its place in the batch.
#ifndef LONGSTREAM_SERVICE_CONFIG_BATCH_LIMITS_H_
#define LONGSTREAM_SERVICE_CONFIG_BATCH_LIMITS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longstream {

// Rows of a step: enough for a prompt piece of 512 tokens beside 64 decode rows.
inline constexpr uint32_t kDefaultBatchTokens = 576;
// Entries of a step, one for each sequence in it. An engine has as many places in its batch.
inline constexpr uint32_t kDefaultBatchSequences = 64;
// Some steps of a small model, enough for a very short answer, and so short that every turn of many
// gets its next slice soon.
inline constexpr absl::Duration kDefaultTimeSlice = absl::Milliseconds(50);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_BATCH_LIMITS_H_
