// Register-blocked products with int8 and int4 panels.
#include "kernels/cpu/gemm/quantised_product.h"

#include "kernels/cpu/gemm/byte_dots.h"
#include "kernels/cpu/gemm/prefetch.h"
#include "kernels/cpu/simd/equal_parts.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The shape of a tile: rows times vectors of 16 outputs. The int32 and f32 sums of a tile stay in
// registers. A single row streams the weights. If there are enough registers, it uses a whole panel
// at a time, because the bytes of a panel follow each other.
#if defined(__AVX512F__)  // 32 registers; a vector takes 1
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;
constexpr int kSingleRowVectors = 2;
#elif defined(__AVX2__)  // 16 registers; a vector takes 2
constexpr int kTileRows = 2;
constexpr int kTileVectors = 1;
constexpr int kSingleRowVectors = 2;
#else                    // 16 registers; a vector takes 4
constexpr int kTileRows = 1;
constexpr int kTileVectors = 1;
constexpr int kSingleRowVectors = 1;
#endif
constexpr int kPanelVectors = static_cast<int>(kPanelOutputs) / kLanes;
constexpr int64_t kFourBytes = kPanelOutputs * 4;  // bytes of four inputs of all outputs of a panel
static_assert(kPanelVectors % kTileVectors == 0);
constexpr bool kSingleRowInHalves = kSingleRowVectors < kPanelVectors;

// The groups of a block of a panel. All tiles compute a block before the next one. A single tile as
// wide as a panel computes all groups at once. A narrower tile reads every second line, so it works
// in blocks: a processor reads a neighbour with each line, which must still be in a cache when it
// is used.
//
// Several tiles read a block of 64 groups from the second-level cache. At the end of a block, sums
// wait and go through memory: with blocks of 8 groups, 16 rows of k = 768 had 0.95 of the speed
// that they have with 64. A single tile, and two tiles of int8, wait for the weights from memory
// anyway. So their blocks have 8 groups, which stay in the first-level cache. That made two tiles
// 1.05 times as fast.
constexpr int64_t kBlockGroups = 64;
constexpr int64_t kFewTilesBlockGroups = 8;

LONGSTREAM_INLINE int64_t MostBlockGroups(DType type, int64_t tiles) {
  const int64_t few = type == DType::kI8 ? 2 : 1;
  return tiles <= few ? kFewTilesBlockGroups : kBlockGroups;
}

// The operands of a part of a product: the rows at `x`, some vectors of panels, and some groups of
// both.
struct Operands {
  const RowGroup* x;
  int64_t x_stride;
  const std::byte* panel;  // the panel's first group
  int64_t panel_stride;    // bytes from one panel to the next
  int64_t first_vector;    // the first vector in that panel
  int64_t groups;
  float* sums;
  bool resume;  // continue the sums that are at `sums`
};

// The number of inputs that a byte holds: one (int8), or two that are 16 apart (int4).
template <DType kType>
constexpr int kHalves = kType == DType::kI8 ? 1 : 2;
// The number of steps in which the sums of a group are computed.
template <DType kType>
constexpr int kFours = static_cast<int>(kGroupInputs) / 4 / kHalves<kType>;

// Whether the order of additions is kept. Several rows of int4 have so few sums that the compiler's
// own order fits in registers, and on AVX2 that order is faster.
template <DType kType, int kRows>
constexpr bool kKeepsOrder = kType == DType::kI8 || kRows == 1;

// dots[r][v] += the products of one group, whose bytes begin at w. Prefetches the lines of `ahead`,
// from `asked` on.
template <DType kType, int kRows, int kVectors>
LONGSTREAM_INLINE void AddGroup(const RowGroup* x, int64_t x_stride, const std::byte* w,
                                int64_t panel_stride, const Prefetch& ahead, const std::byte* asked,
                                Dots<kType> (&dots)[kRows][kVectors]) {
  for (int four = 0; four < kFours<kType>; ++four) {
    I32x16 bytes[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* panel = w + v / kPanelVectors * panel_stride + four * kFourBytes;
      PrefetchLine<kRows, kType == DType::kI4 || kSingleRowInHalves>(asked + four * ahead.step +
                                                                     v * ahead.vector);
      bytes[v] = Load(reinterpret_cast<const int32_t*>(panel) + v % kPanelVectors * kLanes);
    }
    for (int half = 0; half < kHalves<kType>; ++half) {
      I32x16 values[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        values[v] =
            kHalves<kType> == 1 ? bytes[v] : (bytes[v] >> (4 * half)) & Broadcast(0x0f0f0f0f);
      }
      for (int r = 0; r < kRows; ++r) {
        int32_t inputs;
        __builtin_memcpy(&inputs, x[r * x_stride].values + (half * kFours<kType> + four) * 4, 4);
        for (int v = 0; v < kVectors; ++v) {
          dots[r][v].Add(values[v], inputs);
          if constexpr (kKeepsOrder<kType, kRows>) dots[r][v].KeepOrder();
        }
      }
    }
  }
}

template <DType kType, int kRows, int kVectors>
LONGSTREAM_INLINE void Tile(const Operands& operands, const Prefetch& ahead) {
  // The operands are copied, so that the compiler knows that stores do not change them.
  const auto [x, x_stride, panel, panel_stride, first_vector, groups, sums, resume] = operands;
  const std::byte* asked = ahead.from;
  // All loops over the sums are unrolled (TileSums in panel_tile.h says why).
  F32x16 sum[kRows][kVectors];
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Zero();
  }
  if (resume) {
    LONGSTREAM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Load(sums + r * kSumsStride + v * kLanes);
    }
  }
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* group = panel + g * GroupBytes(kType);
    Dots<kType> dots[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
      // Subtracts what OffsetOf adds to every product.
      const int32_t first = -OffsetOf(kType) * x[r * x_stride + g].sum;
      for (int v = 0; v < kVectors; ++v) dots[r][v].Start(first);
    }
    AddGroup(x + g, x_stride, group + kScaleBytes + first_vector * kLanes * 4, panel_stride, ahead,
             asked, dots);
    asked += kFours<kType> * ahead.step;
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* scales = group + v / kPanelVectors * panel_stride;
      const F32x16 scale =
          Load(reinterpret_cast<const F16*>(scales) + (first_vector + v % kPanelVectors) * kLanes);
      LONGSTREAM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const F32x16 both = Broadcast(x[r * x_stride + g].scale) * scale;
        sum[r][v] = Fma(ToF32(dots[r][v].Total()), both, sum[r][v]);
      }
    }
  }
  LONGSTREAM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) Store(sum[r][v], sums + r * kSumsStride + v * kLanes);
  }
}

template <DType kType, int kRows>
LONGSTREAM_INLINE void TileOfRows(int64_t rows, const Operands& operands, const Prefetch& ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileOfRows<kType, kRows - 1>(rows, operands, ahead);
  }
  Tile<kType, kRows, kTileVectors>(operands, ahead);
}

// Multiplies all rows with kTileVectors vectors.
template <DType kType>
void Rows(const TilePasses& passes, Operands operands) {
  const std::byte* next = operands.panel + operands.groups * GroupBytes(kType);
  Prefetch ahead = passes.First(operands.first_vector / kTileVectors,
                                operands.panel + operands.first_vector * kLanes * 4, next,
                                operands.groups * kFours<kType>);
  for (int64_t t = 0; t < passes.rows.count; ++t) {
    const int64_t rows = passes.rows.size(t);
    TileOfRows<kType, kTileRows>(rows, operands, ahead);
    operands.x += rows * operands.x_stride;
    operands.sums += rows * kSumsStride;
    ahead.from += ahead.tile;
  }
}

template <DType kType>
void Product(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
             float* sums) {
  const int64_t groups = NumGroups(weight.k);
  const TilePasses passes(block.num_rows, kTileRows, kPanelVectors / kTileVectors,
                          GroupBytes(kType) / kFours<kType>);
  const bool in_one_pass = block.num_rows == 1 ? !kSingleRowInHalves : passes.in_one_pass();
  const EqualParts blocks(groups, in_one_pass ? groups : MostBlockGroups(kType, passes.rows.count));
  const int64_t panel_bytes = PanelBytes(kType, weight.k);
  const auto* panels = static_cast<const std::byte*>(weight.data) + block.first_panel * panel_bytes;
  for (int64_t b = 0, first = 0; b < blocks.count; first += blocks.size(b), ++b) {
    const int64_t num_vectors = block.num_panels * kPanelVectors;
    for (int64_t v = 0; v < num_vectors;) {
      const Operands operands = {
          h.row<RowGroup>(block.first_row) + first,
          h.stride,
          panels + v / kPanelVectors * panel_bytes + first * GroupBytes(kType),
          panel_bytes,
          v % kPanelVectors,
          blocks.size(b),
          sums + v * kLanes,
          first > 0};
      if (block.num_rows == 1 && num_vectors - v >= kSingleRowVectors) {
        const std::byte* half = operands.panel + operands.first_vector * kFourBytes / 2;
        Tile<kType, 1, kSingleRowVectors>(operands,
                                          PrefetchBehind(half, GroupBytes(kType) / kFours<kType>));
        v += kSingleRowVectors;
      } else {
        Rows<kType>(passes, operands);
        v += kTileVectors;
      }
    }
  }
}

}  // namespace

void QuantisedProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                      float* sums) {
  if (weight.type == DType::kI8) return Product<DType::kI8>(h, weight, block, sums);
  Product<DType::kI4>(h, weight, block, sums);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
