// Steps of decode rows alone are padded to a few shapes, so that a device can repeat work that it
// has recorded (Device::Repeat).
#ifndef LONGSTREAM_BACKENDS_RUNTIME_DECODE_BUCKET_H_
#define LONGSTREAM_BACKENDS_RUNTIME_DECODE_BUCKET_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>

#include "kernels/ops/attention/attention.h"

namespace longstream {

struct DecodeBucket {
  int32_t num_rows = 0;
  int64_t max_position = 0;

  // Differs between buckets of one model.
  uint64_t key() const {
    return static_cast<uint64_t>(AttentionSplits(max_position)) << 32 |
           static_cast<uint32_t>(num_rows);
  }
};

// Powers of two; steps of 8 and 16 from the size on where one more row costs time.
inline constexpr int32_t kBucketRows[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};

// The smallest bucket that holds the rows. Attention launches at most twice the parts that the
// longest row is cut into; the blocks of the others find nothing to do.
// REQUIRES: num_rows <= most_rows <= 64, max_position <= last_position, the model's last.
inline DecodeBucket DecodeBucketFor(int32_t num_rows, int64_t max_position, int32_t most_rows,
                                    int64_t last_position) {
  const int32_t rows = *std::lower_bound(std::begin(kBucketRows), std::end(kBucketRows), num_rows);
  const auto parts =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(AttentionSplits(max_position))));
  const int64_t reach =
      parts < kMaxAttentionSplits ? parts * kMinAttentionSplit - 1 : last_position;
  return {std::min(rows, most_rows), std::min(reach, last_position)};
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_RUNTIME_DECODE_BUCKET_H_
