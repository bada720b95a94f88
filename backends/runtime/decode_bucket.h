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

  // A number that differs between the buckets of one model.
  uint64_t key() const {
    return static_cast<uint64_t>(AttentionSplits(max_position)) << 32 |
           static_cast<uint32_t>(num_rows);
  }
};

// Powers of two up to 16. From 16 on, one more row costs time, so the sizes are only 8, then 16 and
// then 32 apart.
inline constexpr int32_t kBucketRows[] = {1,  2,  4,   8,   16,  24,  32, 48,
                                          64, 96, 128, 160, 192, 224, 256};

// The smallest bucket that holds the rows. Attention cuts a row's keys into parts. For a bucket it
// launches at most twice as many parts as the longest row has; blocks of parts that a row does not
// have do nothing.
//
// `last_position` is the last position of the model. REQUIRES: num_rows <= most_rows <= 256,
// max_position <= last_position.
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
