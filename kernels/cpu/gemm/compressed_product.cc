// Register-blocked products with bf16 panels, compressed or plain.
//
// A single row multiplies several panels side by side, as with every format of weights. A few rows
// form one tile, which decodes numbers in registers, because they come from memory and are used
// once. With more rows, the first tile also writes the decoded numbers, in the layout of a plain
// panel, for the other tiles. If there are several tiles, of rows or of columns, all of them
// compute a block of steps before the next block begins.
#include "kernels/cpu/gemm/compressed_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/gemm/compressed_steps.h"
#include "kernels/cpu/gemm/panel_tile.h"
#include "kernels/cpu/gemm/prefetch.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/equal_parts.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(__AVX2__) && !defined(LONGSTREAM_TILES)

namespace {

// The steps of a block. They are 128 KiB of plain numbers, mostly a whole panel, which stay in the
// second-level cache. That is fast enough for tiles. At the end of a block, sums wait for their
// last products and go through memory. (Blocks of 128 steps stay in the first-level cache, but are
// slower: with k = 768, 16 rows had 0.93 and 128 rows had 0.98 of the speed that they have with
// 1024 steps.)
constexpr int64_t kBlockSteps = 1024;
// The vectors of a tile are a column of a step.
static_assert(kPanelTileVectors * kLanes == kColumnOutputs);

using Input = PanelFormat<BF16>::Activation;

// Computes a tile with a column of compressed steps. With kKeep it also writes the column's decoded
// numbers to `plain`, in the layout of plain steps. Returns the patches of the steps after these.
template <int kRows, bool kKeep>
LONGSTREAM_INLINE Patches CompressedTile(const CompressedSteps& steps, int64_t column,
                                         const PanelOperands<BF16>& operands, const Prefetch& ahead,
                                         BF16* plain) {
  // The number of rows chooses the cache of PrefetchLine. A single tile is faster than memory. It
  // must choose the second-level cache, which lines reach sooner than the first.
  constexpr int kPrefetchRows = kKeep ? kRows : std::min(kRows, 4);
  // The operands are copied, so that the compiler knows that stores do not change them.
  const StepReader reader = steps.reader;
  Patches patches = steps.patches;
  const std::byte* from = steps.from + column * kColumnNumbers;
  const std::byte* asked = ahead.from;
  RowPointers<Input, kRows> rows(operands.a, operands.a_stride);
  TileSums<kRows, kPanelTileVectors> sum;
  sum.Begin(operands.sums, operands.resume);
  const auto two_steps = [&](int64_t first, auto lay) LONGSTREAM_INLINE_LAMBDA {
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      I32x16 numbers[kPanelTileVectors];
      reader.Read(from, step, numbers);
      if constexpr (decltype(lay)::value) {
        StepReader::Lay<kPanelTileVectors>(patches, first + step, column * kColumnOutputs, numbers);
      }
      LONGSTREAM_UNROLL
      for (int v = 0; v < kPanelTileVectors; ++v)
        PrefetchLine<kPrefetchRows>(asked + v * ahead.vector);
      if constexpr (kKeep) {
        LONGSTREAM_UNROLL
        for (int v = 0; v < kPanelTileVectors; ++v) {
          Store(numbers[v], reinterpret_cast<int32_t*>(plain) + v * kLanes);
        }
        plain += kStepNumbers;
      }
      asked += ahead.step;
      sum.AddPairs(rows, numbers);
      rows.Advance(kStepInputs);
    }
    from += 2 * kCompressedStepBytes;
  };
  ForTwoSteps(
      steps.first, steps.count, [&] { return patches.step(); }, two_steps);
  sum.End(operands.sums);
  return patches;
}

// Inlined, as all tiles are (panel_tile.h). kLeast: the smallest number of rows that callers have
template <int kRows, int kLeast>
LONGSTREAM_INLINE Patches CompressedTileOfRows(int64_t rows, const CompressedSteps& steps,
                                               int64_t column, const PanelOperands<BF16>& operands,
                                               const Prefetch& ahead, BF16* plain) {
  if constexpr (kRows > kLeast) {
    if (rows < kRows) {
      return CompressedTileOfRows<kRows - 1, kLeast>(rows, steps, column, operands, ahead, plain);
    }
  }
  return CompressedTile<kRows, (kLeast > 1)>(steps, column, operands, ahead, plain);
}

// Not inlined, so that it stays out of the code for compressed panels. A weight has few plain
// panels or only plain ones, so one of the two codes is seldom used.
[[gnu::noinline]] void PlainTile(int64_t rows, const PanelOperands<BF16>& operands,
                                 const Prefetch& ahead) {
  TileOfRows<BF16, kPanelTileRows>(rows, operands, ahead);
}

// Not inlined, so that its tiles may use all registers.
[[gnu::noinline]] Patches OneTile(int64_t rows, const CompressedSteps& steps, int64_t column,
                                  const PanelOperands<BF16>& operands, const Prefetch& ahead) {
  return CompressedTileOfRows<kPanelTileRows, 1>(rows, steps, column, operands, ahead, nullptr);
}

// Multiplies all tiles of rows with a column of a block of steps. If the panel is plain, the column
// is at operands.w. `plain` is scratch [kBlockSteps, kStepNumbers]. Returns the patches after the
// block.
Patches TilesOfColumn(const TilePasses& passes, bool compressed, const CompressedSteps& steps,
                      int64_t column, PanelOperands<BF16> operands, Prefetch ahead, BF16* plain) {
  constexpr int kLeastRows = kPanelTileRows / 2 + 1;  // fewest rows of several nearly equal tiles
  const EqualParts& rows = passes.rows;
  Patches patches = steps.patches;
  if (!compressed) {
    PlainTile(rows.size(0), operands, ahead);
  } else if (rows.count == 1) {
    patches = OneTile(rows.size(0), steps, column, operands, ahead);
  } else {
    plain += column * kColumnNumbers;
    patches = CompressedTileOfRows<kPanelTileRows, kLeastRows>(rows.size(0), steps, column,
                                                               operands, ahead, plain);
    operands.w = plain;
  }
  for (int64_t t = 1; t < rows.count; ++t) {
    operands.a += rows.size(t - 1) * operands.a_stride;
    operands.sums += rows.size(t - 1) * kSumsStride;
    ahead.from += ahead.tile;
    TileOfRows<BF16, kPanelTileRows>(rows.size(t), operands, ahead);
  }
  return patches;
}

// Multiplies all rows of a block with a panel. The caller has not set operands.w and operands.k.
void Tiles(int64_t num_rows, const PanelView& panel, PanelOperands<BF16> operands) {
  alignas(kLineBytes) BF16 plain[kBlockSteps * kStepNumbers];
  const TilePasses passes(num_rows, kPanelTileRows, kColumns, panel.step_bytes());
  // All blocks but the last have an even number of steps.
  const int64_t num_pairs = (panel.num_steps() + 1) / 2;
  const EqualParts pairs(num_pairs, passes.in_one_pass() ? num_pairs : kBlockSteps / 2);
  CompressedSteps steps = StepsOf(panel);
  for (int64_t b = 0; b < pairs.count; ++b) {
    steps.count = std::min(2 * pairs.size(b), panel.num_steps() - steps.first);
    const std::byte* next = steps.from + steps.count * panel.step_bytes();
    operands.k = steps.count * kStepInputs;
    Patches patches = steps.patches;
    for (int64_t column = 0; column < kColumns; ++column) {
      PanelOperands<BF16> of_column = operands;
      of_column.w = reinterpret_cast<const BF16*>(steps.from) + column * kColumnNumbers;
      of_column.sums += column * kColumnOutputs;
      patches = TilesOfColumn(passes, panel.compressed(), steps, column, of_column,
                              passes.First(column, steps.from, next, steps.count), plain);
    }
    steps.patches = patches;
    steps.from = next;
    steps.first += steps.count;
    operands.a += operands.k;
    operands.resume = true;
  }
}

// The number of panels that a single row multiplies side by side.
constexpr int kPanelsAtOnce = kSingleRowVectors / kPanelVectors;
static_assert(kSingleRowPanels % kPanelsAtOnce == 0);

LONGSTREAM_INLINE PanelView PanelOf(const PackedWeight& weight, int64_t panel) {
  return PanelView(PanelAt(weight, panel), weight.k);
}

// Multiplies one row with kPanelsAtOnce panels, all of them compressed.
void CompressedSideBySide(const Input* a, const PackedWeight& weight, int64_t panel, float* sums) {
  CompressedSteps steps[kPanelsAtOnce];
  for (int p = 0; p < kPanelsAtOnce; ++p) steps[p] = StepsOf(PanelOf(weight, panel + p));
  RowPointers<Input, 1> row(a, 0);
  TileSums<1, kSingleRowVectors> sum;
  sum.Begin(sums, false);
  const auto next_patched = [&] {
    int64_t next = steps[0].patches.step();
    for (const CompressedSteps& of_panel : steps) next = std::min(next, of_panel.patches.step());
    return next;
  };
  const auto two_steps = [&](int64_t first, auto lay) LONGSTREAM_INLINE_LAMBDA {
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      I32x16 numbers[kSingleRowVectors];
      LONGSTREAM_UNROLL
      for (int p = 0; p < kPanelsAtOnce; ++p) {
        I32x16* of_panel = numbers + p * kPanelVectors;
        LONGSTREAM_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          steps[p].reader.Read(steps[p].from + c * kColumnNumbers, step,
                               of_panel + c * kPanelTileVectors);
        }
        if constexpr (decltype(lay)::value) {
          StepReader::Lay<kPanelVectors>(steps[p].patches, first + step, 0, of_panel);
        }
      }
      sum.AddPairs(row, numbers);
      row.Advance(kStepInputs);
    }
    LONGSTREAM_UNROLL
    for (int p = 0; p < kPanelsAtOnce; ++p) {
      LONGSTREAM_UNROLL
      for (int64_t i = 0; i < 2 * kCompressedStepBytes; i += kLineBytes) {
        PrefetchLine<1, true>(steps[p].from + kPrefetchDistance + i);
      }
      steps[p].from += 2 * kCompressedStepBytes;
    }
  };
  ForTwoSteps(0, steps[0].count, next_patched, two_steps);
  sum.End(sums);
}

// Multiplies one row with kPanelsAtOnce panels if all of them are compressed or all are plain.
// Returns whether it did.
bool SideBySide(const Input* a, const PackedWeight& weight, int64_t panel, float* sums) {
  int compressed = 0;
  for (int p = 0; p < kPanelsAtOnce; ++p) {
    compressed += PanelOf(weight, panel + p).compressed() ? 1 : 0;
  }
  if (compressed == kPanelsAtOnce) {
    CompressedSideBySide(a, weight, panel, sums);
  } else if (compressed == 0) {
    const PanelView first = PanelOf(weight, panel);
    const int64_t k = first.num_steps() * kStepInputs;
    Tile<BF16, 1, kSingleRowVectors>(
        {a, 0, reinterpret_cast<const BF16*>(first.steps()),
         MostPanelBytes(k) / static_cast<int64_t>(sizeof(BF16)), k, sums, false},
        {});
  } else {
    return false;
  }
  return true;
}

void SingleRow(const Input* a, const PackedWeight& weight, const OutputBlock& block, float* sums) {
  const int64_t end = block.first_panel + block.num_panels;
  for (int64_t p = block.first_panel; p < end;) {
    int64_t count = 1;
    if (end - p >= kPanelsAtOnce && SideBySide(a, weight, p, sums)) {
      count = kPanelsAtOnce;
    } else {
      Tiles(1, PanelOf(weight, p), {a, 0, nullptr, 0, 0, sums, false});
    }
    p += count;
    sums += count * kPanelOutputs;
  }
}

}  // namespace

void CompressedProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                       float* sums) {
  const Input* a = h.row<Input>(block.first_row);
  if (block.num_rows == 1) return SingleRow(a, weight, block, sums);
  for (int64_t p = 0; p < block.num_panels; ++p) {
    Tiles(block.num_rows, PanelOf(weight, block.first_panel + p),
          {a, h.stride, nullptr, 0, 0, sums + p * kPanelOutputs, false});
  }
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA
