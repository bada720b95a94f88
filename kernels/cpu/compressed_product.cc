// Register-blocked products with bf16 panels that are compressed, whole or in part.
//
// Up to twelve rows are one tile, which decodes numbers in registers: they come from memory and are
// used once. Of more rows the first tile also leaves the numbers, as a plain panel has them, to the
// others, a block of steps at a time.
#include "kernels/cpu/compressed_product.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/equal_parts.h"
#include "kernels/cpu/panel_tile.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/weights_ahead.h"

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(__AVX512BF16__)

namespace {

// Steps that all tiles of rows pass before the next ones, 16 KiB of plain numbers: with 64 sums are
// interrupted too often (0.93 of the speed), 192 leave too little of the first-level cache (0.96).
constexpr int64_t kBlockSteps = 128;
static_assert(kTileVectors * kLanes == kPanelOutputs);

LONGSTREAM_INLINE int64_t StepBytes(const PanelSteps::Part& part) {
  return part.compressed ? kCompressedStepBytes : kPlainStepBytes;
}

// Tile, with compressed steps at operands.w. kKeep: leaves them at `plain` as plain ones.
template <int kRows, bool kKeep>
LONGSTREAM_INLINE void CompressedTile(StepReader reader, const Operands<BF16>& operands,
                                      const WeightsAhead& ahead, BF16* plain) {
  const auto [a, a_stride, w, panel_stride, k, sums, resume] = operands;
  const auto* from = reinterpret_cast<const std::byte*>(w);
  const std::byte* asked = ahead.from;
  RowPointers<BF16, kRows> rows(a, a_stride);
  TileSums<kRows, kTileVectors> sum;
  sum.Begin(sums, resume);
  for (int64_t i = 0; i < k; i += 2 * kStepInputs) {
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      I32x16 numbers[kTileVectors];
      reader.Read(from, step, numbers);
      LONGSTREAM_UNROLL
      for (int v = 0; v < kTileVectors; ++v) {
        Ask<kRows>(asked + v * ahead.vector);
        if constexpr (kKeep) Store(numbers[v], reinterpret_cast<int32_t*>(plain) + v * kLanes);
      }
      asked += ahead.step;
      if constexpr (kKeep) plain += kStepNumbers;
      sum.template Add<BF16>(rows, numbers);
      rows.Advance(kStepInputs);
    }
    from += 2 * kCompressedStepBytes;
  }
  sum.End(sums);
}

// Inlined, as all tiles are (panel_tile.h). kLeast: of the rows
template <int kRows, int kLeast>
LONGSTREAM_INLINE void CompressedTileOfRows(int64_t rows, const StepReader& reader,
                                            const Operands<BF16>& operands,
                                            const WeightsAhead& ahead, BF16* plain) {
  if constexpr (kRows > kLeast) {
    if (rows < kRows) {
      return CompressedTileOfRows<kRows - 1, kLeast>(rows, reader, operands, ahead, plain);
    }
  }
  CompressedTile<kRows, (kLeast > 1)>(reader, operands, ahead, plain);
}

// Not inlined: there are few plain parts, or none that are compressed.
void PlainTile(int64_t rows, const Operands<BF16>& operands, const WeightsAhead& ahead) {
  TileOfRows<BF16, kTileRows>(rows, operands, ahead);
}

// One tile of rows times all steps. operands: of the first one
void OneTile(int64_t rows, const StepReader& reader, PanelSteps steps, Operands<BF16> operands) {
  while (steps.left() > 0) {
    const PanelSteps::Part part = steps.Take(steps.left());
    operands.w = reinterpret_cast<const BF16*>(part.from);
    operands.k = part.steps * kStepInputs;
    const WeightsAhead ahead = Behind(part.from, StepBytes(part));
    if (part.compressed) {
      CompressedTileOfRows<kTileRows, 1>(rows, reader, operands, ahead, nullptr);
    } else {
      PlainTile(rows, operands, ahead);
    }
    operands.a += operands.k;
    operands.resume = true;
  }
}

// The first of several tiles times the next `count` steps, which it leaves at `plain`.
void FirstTile(int64_t rows, const StepReader& reader, PanelSteps& steps, int64_t count,
               Operands<BF16> operands, WeightsAhead ahead, BF16* plain) {
  constexpr int kLeastRows = kTileRows / 2 + 1;  // of tiles of nearly equal size
  while (count > 0) {
    const PanelSteps::Part part = steps.Take(count);
    operands.w = reinterpret_cast<const BF16*>(part.from);
    operands.k = part.steps * kStepInputs;
    if (part.compressed) {
      CompressedTileOfRows<kTileRows, kLeastRows>(rows, reader, operands, ahead, plain);
    } else {
      PlainTile(rows, operands, ahead);
      std::memcpy(plain, part.from, static_cast<size_t>(part.steps * kPlainStepBytes));
    }
    operands.a += operands.k;
    operands.resume = true;
    ahead.from += part.steps * ahead.step;
    plain += part.steps * kStepNumbers;
    count -= part.steps;
  }
}

void SeveralTiles(const TilePasses& passes, const StepReader& reader, PanelSteps steps,
                  Operands<BF16> first) {
  alignas(kLineBytes) BF16 plain[kBlockSteps * kStepNumbers];
  const EqualParts pairs((steps.left() + 1) / 2, kBlockSteps / 2);
  for (int64_t b = 0; b < pairs.count; ++b) {
    const int64_t count = b + 1 < pairs.count ? 2 * pairs.size(b) : steps.left();
    PanelSteps behind = steps;
    behind.Skip(count);
    WeightsAhead ahead = passes.First(0, steps.next(), behind.next(), count);
    FirstTile(passes.rows.size(0), reader, steps, count, first, ahead, plain);
    Operands<BF16> operands = first;
    operands.w = plain;
    operands.k = count * kStepInputs;
    for (int64_t t = 1; t < passes.rows.count; ++t) {
      operands.a += passes.rows.size(t - 1) * operands.a_stride;
      operands.sums += passes.rows.size(t - 1) * kSumsStride;
      ahead.from += ahead.tile;
      TileOfRows<BF16, kTileRows>(passes.rows.size(t), operands, ahead);
    }
    first.a += operands.k;
    first.resume = true;
  }
}

}  // namespace

void CompressedProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                       float* sums) {
  const TilePasses passes(block.num_rows, kTileRows, 1, kCompressedStepBytes);
  for (int64_t p = 0; p < block.num_panels; ++p) {
    const std::byte* panel = PanelAt(weight, block.first_panel + p);
    const StepReader reader(panel);
    const PanelSteps steps(panel, weight.k);
    const Operands<BF16> operands = {h.row<BF16>(block.first_row), h.stride, nullptr, 0, 0,
                                     sums + p * kPanelOutputs,     false};
    if (passes.rows.count == 1) {
      OneTile(block.num_rows, reader, steps, operands);
    } else {
      SeveralTiles(passes, reader, steps, operands);
    }
  }
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA
