// Products of prepared rows with packed panels: the core of every projection.
//
// Each output is one sum over k, in the order k = 0, 1, ... in one f32 lane. (bf16 weights on
// avx512 are summed in pairs, as the dot product instruction adds them. int8 and int4 weights are
// summed group by group.) Tiles, blocks of k and threads only decide when a sum is interrupted,
// never its order. So a row has the same bits alone and among 512 others.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_PANEL_PRODUCT_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_PANEL_PRODUCT_H_

#include <cstdint>

#include "kernels/core/executor.h"
#include "kernels/core/matrix.h"
#include "kernels/cpu/gemm/panel.h"
#include "kernels/cpu/gemm/prepared_rows.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// A part of an output [rows, n] that one task computes.
struct OutputBlock {
  int64_t first_row = 0;
  int64_t num_rows = 0;  // <= kBlockRows
  int64_t first_panel = 0;
  int64_t num_panels = 0;

  int64_t stride() const { return num_panels * kPanelOutputs; }  // floats between rows of the sums
};

// The most rows of a block. With more rows the weights are read less often. With fewer rows, the
// block's rows and sums stay in cache. On tiles a block may have all rows of a long prompt's step
// (by default a step has at most 576 tokens), if they stay in cache (MostBlockRows).
inline constexpr int64_t kVectorBlockRows = 256;
inline constexpr int64_t kBlockRows = kHasTiles ? 576 : kVectorBlockRows;
// Several rows are multiplied with one panel at a time, because a panel is one run of memory. A
// single row needs more sums in flight to hide the latency of FMA, so it multiplies several panels.
inline constexpr int64_t kBlockPanels = 1;
inline constexpr int64_t kSingleRowPanels = 4;
// In a block of several rows and one panel, the distance from the sums of one row to those of the
// next.
inline constexpr int64_t kSumsStride = kBlockPanels * kPanelOutputs;
static_assert(kBlockPanels == 1, "the last block of several rows might have fewer panels");
// The number of sums of the largest block.
inline constexpr int64_t kBlockSums = kBlockRows * kBlockPanels * kPanelOutputs;
static_assert(kAmxRows * kSingleRowPanels * kPanelOutputs <= kBlockSums);

// Whether the product of a weight runs on tiles.
LONGSTREAM_INLINE bool UsesTiles(const PackedWeight& weight) {
  return kHasTiles && weight.type == DType::kBF16;
}

// The most rows of a block for a weight. Tiles are so fast that a block's rows must stay in a
// second-level cache of 2 MiB, beside the weights. (On a Granite Rapids, a row of 3072 inputs took
// 1.5 times as long in a block of 256 rows, 1.5 MiB, as in one of 128. A row of 1024 inputs
// took 1.08 times as long in a block of 256 as in one of 512.) But each thread needs some blocks,
// so that all threads end at about the same time.
LONGSTREAM_INLINE int64_t MostBlockRows(const PackedWeight& weight, uint32_t num_threads) {
  if (!UsesTiles(weight)) return kVectorBlockRows;
  constexpr int64_t kMostBytes = int64_t{9} << 17, kLeastRows = 64, kBlocksOfThread = 4;
  int64_t rows = kMostBytes / (weight.k * static_cast<int64_t>(sizeof(BF16)));
  if (rows > kBlockRows) rows = kBlockRows;
  if (NumPanels(weight.n) < kBlocksOfThread * num_threads) rows /= 2;
  return rows < kLeastRows ? kLeastRows : rows / (2 * kAmxRows) * (2 * kAmxRows);
}

// The number of panels of a block of a product of num_rows rows. The few rows of one A tile have
// too few sums for the latency of a tile product.
LONGSTREAM_INLINE int64_t PanelsOfBlock(const PackedWeight& weight, int64_t num_rows) {
  const bool one_tile = UsesTiles(weight) && num_rows <= kAmxRows;
  return num_rows == 1 || one_tile ? kSingleRowPanels : kBlockPanels;
}

// sums[r, c] = sum_k h[first_row + r, k] W[32 first_panel + c, k]     sums: [num_rows, stride()]
// REQUIRES: a block of OutputBlocks, weight.k > 0
void PanelProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                  float* sums);

// On tiles, so many blocks of one panel or of a few follow each other with the same rows. The rows
// come from a second-level cache then. With the blocks of one panel one after the other, the rows
// of all blocks would have to stay in this cache: 512 rows of 3072 inputs took 1.3 times as long.
inline constexpr int64_t kGroupPanels = 8;

// The blocks that cover the product of num_rows rows with a weight. The blocks of one panel (on
// tiles, of kGroupPanels blocks of panels) follow each other, then come those of the next panels. A
// thread takes neighbouring tasks. So it reads one long run of memory, in which a processor reads
// further ahead than in many short ones.
class OutputBlocks {
 public:
  LONGSTREAM_INLINE OutputBlocks(int64_t num_rows, const PackedWeight& weight, uint32_t num_threads)
      : num_rows_(num_rows),
        // Tiles are full if a block begins at a multiple of their rows.
        unit_(UsesTiles(weight) ? 2 * kAmxRows : 1),
        units_((num_rows + unit_ - 1) / unit_),
        panels_(NumPanels(weight.n)),
        panels_per_block_(PanelsOfBlock(weight, num_rows)),
        panel_blocks_((panels_ + panels_per_block_ - 1) / panels_per_block_),
        group_(UsesTiles(weight) ? kGroupPanels : 1) {
    const int64_t most_units = MostBlockRows(weight, num_threads) / unit_;
    row_blocks_ = (units_ + most_units - 1) / most_units;
  }

  LONGSTREAM_INLINE uint32_t count() const {
    return static_cast<uint32_t>(row_blocks_ * panel_blocks_);
  }

  LONGSTREAM_INLINE OutputBlock At(uint32_t index) const {
    const int64_t first_of_group = index / (row_blocks_ * group_) * group_;
    const int64_t left_of_group = panel_blocks_ - first_of_group;
    const int64_t of_group = left_of_group < group_ ? left_of_group : group_;
    const int64_t in_group = index % (row_blocks_ * group_);
    const int64_t b = in_group / of_group;
    const int64_t first_row = unit_ * (units_ * b / row_blocks_);
    const int64_t end = unit_ * (units_ * (b + 1) / row_blocks_);
    const int64_t last_row = end < num_rows_ ? end : num_rows_;
    const int64_t first_panel = (first_of_group + in_group % of_group) * panels_per_block_;
    const int64_t left = panels_ - first_panel;
    return {first_row, last_row - first_row, first_panel,
            left < panels_per_block_ ? left : panels_per_block_};
  }

 private:
  int64_t num_rows_;
  int64_t unit_;
  int64_t units_;
  int64_t panels_;
  int64_t panels_per_block_;
  int64_t panel_blocks_;
  int64_t group_;
  int64_t row_blocks_;
};

// Calls body(block) for the blocks of a product, in parallel.
template <typename Body>
LONGSTREAM_INLINE void ForEachOutputBlock(const Executor& executor, int64_t num_rows,
                                          const PackedWeight& weight, const Body& body) {
  const OutputBlocks blocks(num_rows, weight, executor.num_threads);
  ParallelFor(executor, blocks.count(), [&](uint32_t task) { body(blocks.At(task)); });
}

// Whether a task prefetches the cache lines of its block's outputs before it computes them. The op
// that read the old outputs left these lines in the caches of all threads. So a store to a line
// waits for those caches: 0.5 us between processors that share no cache. 16 rows of 32 outputs have
// 32 such lines. A task takes 2 to 4 us. If it prefetches the lines when it begins, its stores do
// not wait. One row has too few lines to matter. With many rows a task takes longer, and the lines
// would push the weights out of the cache.
LONGSTREAM_INLINE bool AsksForOutputs(const OutputBlock& block) {
  constexpr int64_t kMostRows = 64;
  return block.num_rows > 1 && block.num_rows <= kMostRows;
}

// Calls body(row, output, index, count) for every vector of a block's sums, row by row. `output` is
// the vector's first output, `index` is its index in `sums`, and `count` says how many of its 16
// lanes are outputs.
template <typename Body>
LONGSTREAM_INLINE void ForEachVector(const OutputBlock& block, int64_t n, const Body& body) {
  const int64_t first = block.first_panel * kPanelOutputs;
  const int64_t outputs = n - first < block.stride() ? n - first : block.stride();
  for (int64_t r = 0; r < block.num_rows; ++r) {
    for (int64_t c = 0; c < outputs; c += kLanes) {
      const int64_t left = outputs - c;
      body(block.first_row + r, first + c, r * block.stride() + c, left < kLanes ? left : kLanes);
    }
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_PANEL_PRODUCT_H_
