// The operations of kernels/cpu/simd/amx_tiles.h over arrays, with the unit and in plain C++.
#ifndef LONGSTREAM_TESTS_KERNELS_CPU_AMX_TILE_FUNCTIONS_H_
#define LONGSTREAM_TESTS_KERNELS_CPU_AMX_TILE_FUNCTIONS_H_

#include <cstddef>
#include <cstdint>

namespace longstream {

// Two A tiles, two B tiles and their four sums. A tile has 16 rows of kTileRowBytes here.
inline constexpr int64_t kTileRowBytes = 80;  // the tiles' own rows have 64
struct TileArrays {
  int rows[2];      // of the A tiles
  int depth_bytes;  // of a row of the A tiles
  std::byte a[2][16][kTileRowBytes];
  std::byte b[2][16][kTileRowBytes];
  std::byte sums[4][16][kTileRowBytes];
};

struct TileFunctions {
  // sums += A B. Loads and stores the sums.
  void (*multiply_bf16)(TileArrays& arrays);
  void (*multiply_bytes)(TileArrays& arrays);
  // sums = A B. Does not load the sums.
  void (*product_bf16)(TileArrays& arrays);
};

namespace cpu {
namespace amx {
TileFunctions GetTileFunctions();
}
namespace amx_plain {
TileFunctions GetTileFunctions();
}
}  // namespace cpu

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_CPU_AMX_TILE_FUNCTIONS_H_
