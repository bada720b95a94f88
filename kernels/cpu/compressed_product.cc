// Register-blocked products with bf16 panels, compressed and plain ones.
//
// A single row passes several panels side by side, as every format's single row does. Up to twelve
// rows are one tile, which decodes numbers in registers: they come from memory and are used once.
// Of more rows the first tile also leaves the numbers, as a plain panel has them, to the others, a
// block of steps at a time.
#include "kernels/cpu/compressed_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

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

// Compressed steps of a panel, an even number, from an even one on.
struct CompressedSteps {
  StepReader reader;
  const std::byte* from;
  Patches patches;  // from the first of them on
  int64_t first;
  int64_t count;
};

LONGSTREAM_INLINE CompressedSteps StepsOf(const PanelView& panel) {
  return {StepReader(panel), panel.steps(), panel.patches(), 0, panel.num_steps()};
}

// Calls two(kLay) for every two of `count` steps, with kLay true_type where the one or the other is
// patched: an inner loop without a branch over those that are not.
template <typename NextPatched, typename Two>
LONGSTREAM_INLINE void ForTwoSteps(int64_t first, int64_t count, const NextPatched& next_patched,
                                   const Two& two) {
  const int64_t end = first + count;
  for (int64_t step = first; step < end; step += 2) {
    for (const int64_t until = std::min(end, next_patched() / 2 * 2); step < until; step += 2) {
      two(step, std::false_type{});
    }
    if (step == end) return;
    two(step, std::true_type{});
  }
}

// Tile, with compressed steps. kKeep: leaves them at `plain` as plain ones.
template <int kRows, bool kKeep>
LONGSTREAM_INLINE void CompressedTile(CompressedSteps& steps, const PanelOperands<BF16>& operands,
                                      const WeightsAhead& ahead, BF16* plain) {
  // A tile alone is faster than memory, and lines come to the second-level cache sooner.
  constexpr int kAskRows = kKeep ? kRows : std::min(kRows, 4);
  // Copies, so that the compiler knows that stores leave them alone.
  const StepReader reader = steps.reader;
  Patches patches = steps.patches;
  const std::byte* from = steps.from;
  const std::byte* asked = ahead.from;
  RowPointers<BF16, kRows> rows(operands.a, operands.a_stride);
  TileSums<kRows, kPanelTileVectors> sum;
  sum.Begin(operands.sums, operands.resume);
  const auto two_steps = [&](int64_t first, auto lay) LONGSTREAM_INLINE_LAMBDA {
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      I32x16 numbers[kPanelTileVectors];
      reader.Read(from, step, numbers);
      if constexpr (decltype(lay)::value) StepReader::Lay(patches, first + step, numbers);
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
  };
  ForTwoSteps(
      steps.first, steps.count, [&] { return patches.step(); }, two_steps);
  sum.End(operands.sums);
  steps.patches = patches;
}

// Inlined, as all tiles are (panel_tile.h). kLeast: of the rows
template <int kRows, int kLeast>
LONGSTREAM_INLINE void CompressedTileOfRows(int64_t rows, CompressedSteps& steps,
                                            const PanelOperands<BF16>& operands,
                                            const WeightsAhead& ahead, BF16* plain) {
  if constexpr (kRows > kLeast) {
    if (rows < kRows) {
      return CompressedTileOfRows<kRows - 1, kLeast>(rows, steps, operands, ahead, plain);
    }
  }
  CompressedTile<kRows, (kLeast > 1)>(steps, operands, ahead, plain);
}

// Not inlined: few panels are plain, or none is compressed.
[[gnu::noinline]] void PlainTile(int64_t rows, const PanelOperands<BF16>& operands,
                                 const WeightsAhead& ahead) {
  TileOfRows<BF16, kPanelTileRows>(rows, operands, ahead);
}

// One tile of rows. operands: without w and k
void OneTile(int64_t rows, const PanelView& panel, PanelOperands<BF16> operands) {
  const WeightsAhead ahead = Behind(panel.steps(), panel.step_bytes());
  if (panel.compressed()) {
    CompressedSteps steps = StepsOf(panel);
    return CompressedTileOfRows<kPanelTileRows, 1>(rows, steps, operands, ahead, nullptr);
  }
  operands.w = reinterpret_cast<const BF16*>(panel.steps());
  operands.k = panel.num_steps() * kStepInputs;
  PlainTile(rows, operands, ahead);
}

void SeveralTiles(const TilePasses& passes, const PanelView& panel, PanelOperands<BF16> first) {
  constexpr int kLeastRows = kPanelTileRows / 2 + 1;  // of tiles of nearly equal size
  alignas(kLineBytes) BF16 plain[kBlockSteps * kStepNumbers];
  const EqualParts& rows = passes.rows;
  // Blocks of an even number of steps, but for the last.
  const EqualParts pairs((panel.num_steps() + 1) / 2, kBlockSteps / 2);
  CompressedSteps steps = StepsOf(panel);
  for (int64_t b = 0; b < pairs.count; ++b) {
    steps.count = std::min(2 * pairs.size(b), panel.num_steps() - steps.first);
    const std::byte* next = steps.from + steps.count * panel.step_bytes();
    WeightsAhead ahead = passes.First(0, steps.from, next, steps.count);
    PanelOperands<BF16> operands = first;
    operands.k = steps.count * kStepInputs;
    if (panel.compressed()) {
      operands.w = plain;
      CompressedTileOfRows<kPanelTileRows, kLeastRows>(rows.size(0), steps, operands, ahead, plain);
    } else {
      operands.w = reinterpret_cast<const BF16*>(steps.from);
      PlainTile(rows.size(0), operands, ahead);
    }
    for (int64_t t = 1; t < rows.count; ++t) {
      operands.a += rows.size(t - 1) * operands.a_stride;
      operands.sums += rows.size(t - 1) * kSumsStride;
      ahead.from += ahead.tile;
      TileOfRows<BF16, kPanelTileRows>(rows.size(t), operands, ahead);
    }
    steps.from = next;
    steps.first += steps.count;
    first.a += operands.k;
    first.resume = true;
  }
}

static_assert(kSingleRowPanels == 4 && kSingleRowPanels * kPanelTileVectors == kSingleRowVectors);

// One row times panels that are all compressed.
void CompressedSideBySide(const BF16* a, const PanelView (&panels)[kSingleRowPanels], float* sums) {
  CompressedSteps steps[] = {StepsOf(panels[0]), StepsOf(panels[1]), StepsOf(panels[2]),
                             StepsOf(panels[3])};
  RowPointers<BF16, 1> row(a, 0);
  TileSums<1, kSingleRowVectors> sum;
  sum.Begin(sums, false);
  const auto next_patched = [&] {
    return std::min(std::min(steps[0].patches.step(), steps[1].patches.step()),
                    std::min(steps[2].patches.step(), steps[3].patches.step()));
  };
  const auto two_steps = [&](int64_t first, auto lay) LONGSTREAM_INLINE_LAMBDA {
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      I32x16 numbers[kSingleRowVectors];
      LONGSTREAM_UNROLL
      for (int p = 0; p < kSingleRowPanels; ++p) {
        I32x16* of_panel = numbers + p * kPanelTileVectors;
        steps[p].reader.Read(steps[p].from, step, of_panel);
        if constexpr (decltype(lay)::value) {
          StepReader::Lay(steps[p].patches, first + step, of_panel);
        }
      }
      sum.Add<BF16>(row, numbers);
      row.Advance(kStepInputs);
    }
    LONGSTREAM_UNROLL
    for (int p = 0; p < kSingleRowPanels; ++p) steps[p].from += 2 * kCompressedStepBytes;
  };
  ForTwoSteps(0, steps[0].count, next_patched, two_steps);
  sum.End(sums);
}

// One row times panels side by side, if they are of one kind.
bool SideBySide(const BF16* a, const PanelView (&panels)[kSingleRowPanels], float* sums) {
  const auto compressed = std::count_if(std::begin(panels), std::end(panels),
                                        [](const PanelView& p) { return p.compressed(); });
  if (compressed == kSingleRowPanels) {
    CompressedSideBySide(a, panels, sums);
  } else if (compressed == 0) {
    const int64_t k = panels[0].num_steps() * kStepInputs;
    Tile<BF16, 1, kSingleRowVectors>(
        {a, 0, reinterpret_cast<const BF16*>(panels[0].steps()),
         MostPanelBytes(k) / static_cast<int64_t>(sizeof(BF16)), k, sums, false},
        {});
  } else {
    return false;
  }
  return true;
}

void SingleRow(const BF16* a, const PackedWeight& weight, const OutputBlock& block, float* sums) {
  const auto panel = [&](int64_t p) { return PanelView(PanelAt(weight, p), weight.k); };
  const int64_t end = block.first_panel + block.num_panels;
  for (int64_t p = block.first_panel; p < end;) {
    int64_t count = 1;
    if (end - p >= kSingleRowPanels &&
        SideBySide(a, {panel(p), panel(p + 1), panel(p + 2), panel(p + 3)}, sums)) {
      count = kSingleRowPanels;
    } else {
      OneTile(1, panel(p), {a, 0, nullptr, 0, 0, sums, false});
    }
    p += count;
    sums += count * kPanelOutputs;
  }
}

}  // namespace

void CompressedProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                       float* sums) {
  const BF16* a = h.row<BF16>(block.first_row);
  if (block.num_rows == 1) return SingleRow(a, weight, block, sums);
  for (int64_t p = 0; p < block.num_panels; ++p) {
    const PanelView panel(PanelAt(weight, block.first_panel + p), weight.k);
    const TilePasses passes(block.num_rows, kPanelTileRows, 1, panel.step_bytes());
    const PanelOperands<BF16> operands = {a,    h.stride, nullptr, 0, 0, sums + p * kPanelOutputs,
                                          false};
    if (passes.rows.count == 1) {
      OneTile(block.num_rows, panel, operands);
    } else {
      SeveralTiles(passes, panel, operands);
    }
  }
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA
