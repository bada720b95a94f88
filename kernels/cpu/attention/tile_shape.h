// The shape of a tile of prefill rows.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_TILE_SHAPE_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_TILE_SHAPE_H_

#include <cstdint>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

struct TileShape {
  int64_t dim = 0;     // D
  int64_t rows = 0;    // <= kTileRows
  int64_t stride = 0;  // rows, rounded up to whole vectors
  float scale = 1.0f;  // the factor of the scores

  // The number of floats in a row of sums: D, rounded up to whole vectors.
  int64_t padded_dim() const { return (dim + kLanes - 1) / kLanes * kLanes; }
};

// The sizes with which classes of blocks compute a tile, unless they have their own: a block of
// keys at a time, for all rows together.
struct BlockSizes {
  static constexpr int64_t kRows = kTileRows;      // the most rows of a tile
  static constexpr int64_t kPartRows = kTileRows;  // rows that are computed together
  static constexpr int64_t kKeys = kKeyBlock;      // keys that are computed together
};

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_TILE_SHAPE_H_
