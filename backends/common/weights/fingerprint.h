// A 64-bit hash of weights: two checkpoints with the same fingerprint hold the same numbers.
#ifndef LONGSTREAM_BACKENDS_COMMON_WEIGHTS_FINGERPRINT_H_
#define LONGSTREAM_BACKENDS_COMMON_WEIGHTS_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/core/executor.h"

namespace longstream {

// Tells an accidental difference (another step of training, one flipped bit); not a forged one.
// The same for every executor and every machine of this byte order.
uint64_t HashBytes(std::span<const std::byte> bytes, const Executor& executor);

// One more value into a running hash; the order matters.
uint64_t HashAppend(uint64_t hash, uint64_t value);
uint64_t HashAppend(uint64_t hash, std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_WEIGHTS_FINGERPRINT_H_
