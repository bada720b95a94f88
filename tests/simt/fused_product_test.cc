// Tests which products prepare their rows themselves. In the 14B model these are the products that
// docs/performance-cuda.md relies on. Products whose rows do not fit in shared memory must not do
// so.
#include "kernels/cuda/gemm/fused_product.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "kernels/core/dtype.h"

namespace longstream::cuda {
namespace {

constexpr float kNothing = 0.0f;  // stands for a norm's weights or a gate, which nothing reads here

struct Product {
  int64_t n;
  int64_t k;
  bool norm = false;
  bool gate = false;
};

// The largest number of rows that `product` prepares itself.
template <int kWeights = 1>
int64_t MostRows(DType type, const Product& product) {
  RowSource source;
  if (product.norm) source.norm = {&kNothing, product.k, 1e-6f};
  if (product.gate) source.gate.data = const_cast<float*>(&kNothing);
  int64_t rows = 0;
  for (;; ++rows) {
    source.num_rows = rows + 1;
    const ProductOperands<kWeights> operands = {.num_rows = source.num_rows,
                                                .weights = {},
                                                .n = product.n,
                                                .stride = WeightStride(type, product.k)};
    if (!FusesRows(type, source, operands)) return rows;
  }
}

constexpr DType kMmaTypes[] = {DType::kBF16, DType::kI8, DType::kI4};

TEST(FusedProduct, ThoseOfALayerAtBatchOne) {
  for (DType type : kMmaTypes) {
    EXPECT_EQ(MostRows(type, {.n = 7168, .k = 5120, .norm = true}), 2);                // qkv
    EXPECT_EQ(MostRows(type, {.n = 5120, .k = 5120}), 3);                              // o
    EXPECT_EQ(MostRows<2>(type, {.n = 17408, .k = 5120, .norm = true}), 2);            // gate, up
    EXPECT_EQ(MostRows(type, {.n = 5120, .k = 17408}), 1);                             // down
    EXPECT_EQ(MostRows(type, {.n = 5120, .k = 5120, .norm = true, .gate = true}), 1);  // o, HypeNet
  }
}

// In int8 and int4 the head has many blocks, which run one after the other. Each would read again
// what a separate kernel reads once.
TEST(FusedProduct, NotTheHeadUnlessItsBlocksStay) {
  EXPECT_EQ(MostRows(DType::kBF16, {.n = 151936, .k = 5120, .norm = true}), 2);
  for (DType type : {DType::kI8, DType::kI4}) {
    EXPECT_EQ(MostRows(type, {.n = 151936, .k = 5120, .norm = true}), 0);
  }
}

// The products of the 14B model. Down and o have 320 tiles: 132 blocks take two rounds of whole
// tiles, and the other 56 tiles are 112 halves.
TEST(RingTiles, AreCutIntoHalvesIfThereAreBlocksForAllHalves) {
  const auto tiles = [](const RingTiles& made) { return std::pair(made.whole, made.tiles); };
  EXPECT_EQ(tiles(RingTilesOf<1>(5120)), std::pair(264, 264 + 112));
  EXPECT_EQ(tiles(RingTilesOf<1>(7168)), std::pair(396, 396 + 104));
  EXPECT_EQ(tiles(RingTilesOf<2>(17408)), std::pair(2112, 2112 + 128));
  EXPECT_EQ(tiles(RingTilesOf<1>(2048)), std::pair(128, 128));
  EXPECT_EQ(tiles(RingTilesOf<1>(151936)), std::pair(9496, 9496));
  EXPECT_EQ(tiles(RingTilesOf<1>(132 * 16)), std::pair(132, 132));
}

// Every output is in exactly one tile, whatever the number of outputs.
template <int kWeights>
void ExpectTilesCoverOutputs() {
  constexpr int kOutputs = kTileOutputs<kWeights>;
  for (int64_t n = 1; n < 3 * kMaxRingBlocks * kOutputs; ++n) {
    const RingTiles made = RingTilesOf<kWeights>(n);
    int64_t next = 0;
    for (int tile = 0; tile < made.tiles; ++tile) {
      ASSERT_EQ(made.FirstOutput<kOutputs>(tile), next) << n;
      next += made.IsHalf(tile) ? kOutputs / 2 : kOutputs;
    }
    ASSERT_GE(next, n);
    ASSERT_LT(next - n, kOutputs) << n;
    // The halves come in one round, behind whole rounds.
    ASSERT_LE(made.tiles - made.whole, kMaxRingBlocks) << n;
    if (made.tiles > made.whole) {
      ASSERT_EQ(made.whole % kMaxRingBlocks, 0) << n;
    }
  }
}

TEST(RingTiles, CoverAllOutputs) {
  ExpectTilesCoverOutputs<1>();
  ExpectTilesCoverOutputs<2>();
}

TEST(FusedProduct, AtMostFourRows) {
  for (DType type : kMmaTypes) {
    EXPECT_EQ(MostRows(type, {.n = 3072, .k = 1024, .norm = true}), kMaxFusedRows);
  }
}

TEST(FusedProduct, RowsMustFitIntoSharedMemory) {
  EXPECT_EQ(MostRows(DType::kBF16, {.n = 64, .k = 12288}), 1);
  EXPECT_EQ(MostRows<2>(DType::kBF16, {.n = 64, .k = 12288}), 1);
  EXPECT_EQ(MostRows(DType::kBF16, {.n = 64, .k = 24576}), 0);
  EXPECT_EQ(MostRows(DType::kI8, {.n = 64, .k = 12288}), 4);
}

TEST(FusedProduct, OnlyOfWeightsThatTensorCoresTake) {
  for (DType type : {DType::kF32, DType::kF16}) EXPECT_EQ(MostRows(type, {.n = 64, .k = 64}), 0);
}

}  // namespace
}  // namespace longstream::cuda
