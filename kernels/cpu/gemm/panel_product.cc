// Register-blocked products with packed panels.
#include "kernels/cpu/gemm/panel_product.h"

#include "kernels/cpu/gemm/amx_product.h"
#include "kernels/cpu/gemm/compressed_product.h"
#include "kernels/cpu/gemm/panel_tile.h"
#include "kernels/cpu/gemm/prefetch.h"
#include "kernels/cpu/gemm/quantised_product.h"
#include "kernels/cpu/simd/equal_parts.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// Bytes of a block of a panel's weights. All tiles use a block before the next one, which is
// prefetched meanwhile. The two blocks together take two thirds of the 48 KiB of the first-level
// cache of a Zen 5 or Ice Lake processor. The blocks of a panel are of nearly equal size. A single
// tile as wide as a panel uses all of the panel at once, and so does a single row.
constexpr int64_t kBlockBytes = int64_t{16} << 10;

// Multiplies all rows with kPanelTileVectors vectors of a panel, from `vector` on.
template <typename W>
void Rows(const TilePasses& passes, int64_t vector, PanelOperands<W> operands) {
  constexpr int64_t kInputs = PanelFormat<W>::kInputs;
  const W* next = operands.w - vector * kLanes * kInputs + operands.k * kPanelOutputs;
  Prefetch ahead = passes.First(vector / kPanelTileVectors, operands.w, next, operands.k / kInputs);
  for (int64_t t = 0; t < passes.rows.count; ++t) {
    const int64_t rows = passes.rows.size(t);
    TileOfRows<W, kPanelTileRows>(rows, operands, ahead);
    operands.a += rows * operands.a_stride;
    operands.sums += rows * kSumsStride;
    ahead.from += ahead.tile;
  }
}

// Computes one block of k, for all vectors of the panels of `block`. A tile takes several vectors.
template <typename W>
void Vectors(const OutputBlock& block, const TilePasses& passes, const PanelOperands<W>& first) {
  const int64_t num_vectors = block.num_panels * kPanelVectors;
  for (int64_t v = 0; v < num_vectors;) {
    const int64_t in_panel = v % kPanelVectors;
    PanelOperands<W> operands = first;
    operands.w +=
        v / kPanelVectors * first.panel_stride + in_panel * kLanes * PanelFormat<W>::kInputs;
    operands.sums += v * kLanes;
    if (block.num_rows == 1 && num_vectors - v >= kSingleRowVectors) {
      Tile<W, 1, kSingleRowVectors>(operands, {});
      v += kSingleRowVectors;
    } else {
      Rows<W>(passes, in_panel, operands);
      v += kPanelTileVectors;
    }
  }
}

template <typename W>
void Product(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
             float* sums) {
  constexpr int64_t kInputs = PanelFormat<W>::kInputs;
  constexpr int64_t kStepBytes = kInputs * kPanelOutputs * static_cast<int64_t>(sizeof(W));
  const int64_t panel_stride = PanelElements(weight.type, weight.k);
  const auto* a = h.row<typename PanelFormat<W>::Activation>(block.first_row);
  const W* w = static_cast<const W*>(weight.data) + block.first_panel * panel_stride;
  const int64_t steps = (weight.k + kInputs - 1) / kInputs;
  const TilePasses passes(block.num_rows, kPanelTileRows, kPanelVectors / kPanelTileVectors,
                          kStepBytes);
  const bool in_one_pass = block.num_rows == 1 || passes.in_one_pass();
  const EqualParts blocks(steps, in_one_pass ? steps : kBlockBytes / kStepBytes);
  for (int64_t b = 0; b < blocks.count; ++b) {
    const int64_t inputs = blocks.size(b) * kInputs;
    Vectors<W>(block, passes, {a, h.stride, w, panel_stride, inputs, sums, b > 0});
    a += inputs;
    w += inputs * kPanelOutputs;
  }
}

}  // namespace

void PanelProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                  float* sums) {
  switch (weight.type) {
    case DType::kF32:
      return Product<float>(h, weight, block, sums);
    case DType::kF16:
      return Product<F16>(h, weight, block, sums);
    case DType::kBF16:
      if constexpr (kHasTiles) {
        return AmxProduct(h, weight, block, sums);
      } else if constexpr (kCompressesBF16) {
        return CompressedProduct(h, weight, block, sums);
      } else {
        return Product<BF16>(h, weight, block, sums);
      }
    case DType::kI8:
    case DType::kI4:
      return QuantisedProduct(h, weight, block, sums);
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
