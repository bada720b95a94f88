// Register-blocked products with bf16 panels that are compressed, whole or in part.
//
// A single row passes several panels side by side, as it does plain ones. Up to twelve rows are one
// tile, which decodes numbers in registers: they come from memory and are used once. Of more rows
// the first tile also leaves the numbers, as a plain panel has them, to the others, a block of
// steps at a time.
#include "kernels/cpu/compressed_product.h"

#include <algorithm>
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
static_assert(kPanelTileVectors * kLanes == kPanelOutputs);

LONGSTREAM_INLINE int64_t StepBytes(const PanelSteps::Part& part) {
  return part.compressed ? kCompressedStepBytes : kPlainStepBytes;
}

// Tile, with compressed steps of one panel at operands.w. kKeep: leaves them at `plain` as plain
// ones.
template <int kRows, bool kKeep>
LONGSTREAM_INLINE void CompressedTile(StepReader reader, const PanelOperands<BF16>& operands,
                                      const WeightsAhead& ahead, BF16* plain) {
  // A tile alone is faster than memory, and lines come to the second-level cache sooner.
  constexpr int kAskRows = kKeep ? kRows : std::min(kRows, 4);
  const auto [a, a_stride, w, panel_stride, k, sums, resume] = operands;
  const auto* from = reinterpret_cast<const std::byte*>(w);
  const std::byte* asked = ahead.from;
  RowPointers<BF16, kRows> rows(a, a_stride);
  TileSums<kRows, kPanelTileVectors> sum;
  sum.Begin(sums, resume);
  for (int64_t i = 0; i < k; i += 2 * kStepInputs) {
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      I32x16 numbers[kPanelTileVectors];
      reader.Read(from, step, numbers);
      LONGSTREAM_UNROLL
      for (int v = 0; v < kPanelTileVectors; ++v) {
        Ask<kAskRows>(asked + v * ahead.vector);
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
                                            const PanelOperands<BF16>& operands,
                                            const WeightsAhead& ahead, BF16* plain) {
  if constexpr (kRows > kLeast) {
    if (rows < kRows) {
      return CompressedTileOfRows<kRows - 1, kLeast>(rows, reader, operands, ahead, plain);
    }
  }
  CompressedTile<kRows, (kLeast > 1)>(reader, operands, ahead, plain);
}

// Not inlined: there are few plain parts, or none that are compressed.
[[gnu::noinline]] void PlainTile(int64_t rows, const PanelOperands<BF16>& operands,
                                 const WeightsAhead& ahead) {
  TileOfRows<BF16, kPanelTileRows>(rows, operands, ahead);
}

// One tile of rows times all steps. operands: of the first one
void OneTile(int64_t rows, const StepReader& reader, PanelSteps steps,
             PanelOperands<BF16> operands) {
  while (steps.left() > 0) {
    const PanelSteps::Part part = steps.Take(steps.left());
    operands.w = reinterpret_cast<const BF16*>(part.from);
    operands.k = part.steps * kStepInputs;
    const WeightsAhead ahead = Behind(part.from, StepBytes(part));
    if (part.compressed) {
      CompressedTileOfRows<kPanelTileRows, 1>(rows, reader, operands, ahead, nullptr);
    } else {
      PlainTile(rows, operands, ahead);
    }
    operands.a += operands.k;
    operands.resume = true;
  }
}

// The first of several tiles times the next `count` steps, which it leaves at `plain`.
void FirstTile(int64_t rows, const StepReader& reader, PanelSteps& steps, int64_t count,
               PanelOperands<BF16> operands, WeightsAhead ahead, BF16* plain) {
  constexpr int kLeastRows = kPanelTileRows / 2 + 1;  // of tiles of nearly equal size
  while (count > 0) {
    const PanelSteps::Part part = steps.Take(count);
    operands.w = reinterpret_cast<const BF16*>(part.from);
    operands.k = part.steps * kStepInputs;
    if (part.compressed) {
      CompressedTileOfRows<kPanelTileRows, kLeastRows>(rows, reader, operands, ahead, plain);
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
                  PanelOperands<BF16> first) {
  alignas(kLineBytes) BF16 plain[kBlockSteps * kStepNumbers];
  const EqualParts pairs((steps.left() + 1) / 2, kBlockSteps / 2);
  for (int64_t b = 0; b < pairs.count; ++b) {
    const int64_t count = b + 1 < pairs.count ? 2 * pairs.size(b) : steps.left();
    PanelSteps behind = steps;
    behind.Skip(count);
    WeightsAhead ahead = passes.First(0, steps.next(), behind.next(), count);
    FirstTile(passes.rows.size(0), reader, steps, count, first, ahead, plain);
    PanelOperands<BF16> operands = first;
    operands.w = plain;
    operands.k = count * kStepInputs;
    for (int64_t t = 1; t < passes.rows.count; ++t) {
      operands.a += passes.rows.size(t - 1) * operands.a_stride;
      operands.sums += passes.rows.size(t - 1) * kSumsStride;
      ahead.from += ahead.tile;
      TileOfRows<BF16, kPanelTileRows>(passes.rows.size(t), operands, ahead);
    }
    first.a += operands.k;
    first.resume = true;
  }
}

static_assert(kSingleRowPanels == 4 && kSingleRowPanels * kPanelTileVectors == kSingleRowVectors);

// One row times panels whose steps are all compressed.
void CompressedSideBySide(const BF16* a, const std::byte* const (&panels)[kSingleRowPanels],
                          int64_t k, float* sums) {
  const StepReader readers[] = {StepReader(panels[0]), StepReader(panels[1]), StepReader(panels[2]),
                                StepReader(panels[3])};
  const std::byte* from[kSingleRowPanels];
  for (int p = 0; p < kSingleRowPanels; ++p) from[p] = panels[p] + FrontBytes(k);
  RowPointers<BF16, 1> row(a, 0);
  TileSums<1, kSingleRowVectors> sum;
  sum.Begin(sums, false);
  for (int64_t i = 0; i < k; i += 2 * kStepInputs) {
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      I32x16 numbers[kSingleRowVectors];
      LONGSTREAM_UNROLL
      for (int p = 0; p < kSingleRowPanels; ++p) {
        readers[p].Read(from[p], step, numbers + p * kPanelTileVectors);
      }
      sum.Add<BF16>(row, numbers);
      row.Advance(kStepInputs);
    }
    LONGSTREAM_UNROLL
    for (int p = 0; p < kSingleRowPanels; ++p) from[p] += 2 * kCompressedStepBytes;
  }
  sum.End(sums);
}

// One row times the panels at `panels` side by side, if all their steps are of one kind.
bool SideBySide(const BF16* a, const std::byte* const (&panels)[kSingleRowPanels], int64_t k,
                float* sums) {
  int compressed = 0;
  for (const std::byte* panel : panels) {
    const PanelSteps::Part part = PanelSteps(panel, k).Take(NumSteps(k));
    if (part.steps < NumSteps(k)) return false;
    compressed += part.compressed ? 1 : 0;
  }
  if (compressed == kSingleRowPanels) {
    CompressedSideBySide(a, panels, k, sums);
  } else if (compressed == 0) {
    Tile<BF16, 1, kSingleRowVectors>(
        {a, 0, reinterpret_cast<const BF16*>(panels[0] + FrontBytes(k)),
         MostPanelBytes(k) / static_cast<int64_t>(sizeof(BF16)), k, sums, false},
        {});
  } else {
    return false;
  }
  return true;
}

void SingleRow(const BF16* a, const PackedWeight& weight, const OutputBlock& block, float* sums) {
  const int64_t end = block.first_panel + block.num_panels;
  for (int64_t first = block.first_panel; first < end;) {
    const std::byte* panels[kSingleRowPanels];
    const int64_t count = std::min<int64_t>(kSingleRowPanels, end - first);
    for (int64_t p = 0; p < count; ++p) panels[p] = PanelAt(weight, first + p);
    if (count < kSingleRowPanels || !SideBySide(a, panels, weight.k, sums)) {
      for (int64_t p = 0; p < count; ++p) {
        OneTile(1, StepReader(panels[p]), PanelSteps(panels[p], weight.k),
                {a, 0, nullptr, 0, 0, sums + p * kPanelOutputs, false});
      }
    }
    first += count;
    sums += count * kPanelOutputs;
  }
}

}  // namespace

void CompressedProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                       float* sums) {
  const BF16* a = h.row<BF16>(block.first_row);
  if (block.num_rows == 1) return SingleRow(a, weight, block, sums);
  const TilePasses passes(block.num_rows, kPanelTileRows, 1, kCompressedStepBytes);
  for (int64_t p = 0; p < block.num_panels; ++p) {
    const std::byte* panel = PanelAt(weight, block.first_panel + p);
    const StepReader reader(panel);
    const PanelSteps steps(panel, weight.k);
    const PanelOperands<BF16> operands = {a,    h.stride, nullptr, 0, 0, sums + p * kPanelOutputs,
                                          false};
    if (passes.rows.count == 1) {
      OneTile(block.num_rows, reader, steps, operands);
    } else {
      SeveralTiles(passes, reader, steps, operands);
    }
  }
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA
