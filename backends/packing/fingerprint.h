// A 64-bit hash of weights: two checkpoints with the same fingerprint hold the same numbers.
#ifndef LONGSTREAM_BACKENDS_PACKING_FINGERPRINT_H_
#define LONGSTREAM_BACKENDS_PACKING_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/core/executor.h"

namespace longstream {

// The hash detects accidental differences (another training step, one flipped bit), not forgeries.
// It is the same for every executor and on every machine of this byte order.
uint64_t HashBytes(std::span<const std::byte> bytes, const Executor& executor);

// HashBytes for bytes that arrive in runs.
class RunningHash {
 public:
  // Every run but the last is a multiple of this size. Pieces of this size are hashed
  // independently, so threads share a run.
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  // `total_bytes`: the bytes of all runs together.
  explicit RunningHash(size_t total_bytes) : hash_(total_bytes) {}
  void Add(std::span<const std::byte> run, const Executor& executor);
  // REQUIRES: all bytes have been added
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_;
};

// Adds one value to a running hash; the order matters.
uint64_t HashAppend(uint64_t hash, uint64_t value);
uint64_t HashAppend(uint64_t hash, std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_FINGERPRINT_H_
