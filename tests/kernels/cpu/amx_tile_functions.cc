#include "tests/kernels/cpu/amx_tile_functions.h"

#include <type_traits>

#include "kernels/cpu/simd/amx_tiles.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// Calls body(tile) for each tile of sums that has rows, with the tile as a constant.
template <typename Body>
void ForSums(const TileArrays& arrays, const Body& body) {
  if (arrays.rows[0] > 0) {
    body(std::integral_constant<int, 0>{});
    body(std::integral_constant<int, 1>{});
  }
  if (arrays.rows[1] > 0) {
    body(std::integral_constant<int, 2>{});
    body(std::integral_constant<int, 3>{});
  }
}

template <bool kBytes, bool kAdd>
void Multiply(TileArrays& arrays) {
  AmxTiles unit;
  unit.SetShape({arrays.rows[0], arrays.rows[1], arrays.depth_bytes});
  if (arrays.rows[0] > 0) unit.Load<kAmxA>(arrays.a[0], kTileRowBytes);
  if (arrays.rows[1] > 0) unit.Load<kAmxA + 1>(arrays.a[1], kTileRowBytes);
  unit.Load<kAmxB>(arrays.b[0], kTileRowBytes);
  unit.Load<kAmxB + 1>(arrays.b[1], kTileRowBytes);
  ForSums(arrays, [&](auto tile) {
    constexpr int kSums = decltype(tile)::value;
    constexpr int kA = kAmxA + kSums / 2, kB = kAmxB + kSums % 2;
    if constexpr (kAdd) {
      unit.Load<kSums>(arrays.sums[kSums], kTileRowBytes);
    } else {
      unit.Zero<kSums>();
    }
    if constexpr (kBytes) {
      unit.MultiplyBytes<kSums, kA, kB>();
    } else {
      unit.MultiplyBF16<kSums, kA, kB>();
    }
    unit.Store<kSums>(arrays.sums[kSums], kTileRowBytes);
  });
}

}  // namespace

TileFunctions GetTileFunctions() {
  return {Multiply<false, true>, Multiply<true, true>, Multiply<false, false>};
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
