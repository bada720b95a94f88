// Compares the products of a warpgroup of kernels/cuda/primitives/wgmma.cuh with plain loops, for
// matrices in the layout that PTX defines. Also tests that the harness notices mistakes.
#include "kernels/cuda/primitives/wgmma.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "kernels/core/stream.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/cuda/primitives/warp.cuh"
#include "tests/simt/products.h"

namespace longstream::cuda {
namespace {

constexpr int kGroups = 2;  // warpgroups of a block
constexpr int kRows = kGroups * kWarpgroupRows;
constexpr int kKeys = 128;

// The error of the sum of `products` exact products, relative to the sum of their magnitudes
// (tests/simt/harness/tensor_sum.h). Each instruction sums kProductDepth of them.
double SumTolerance(int products) { return (products + 3.0 * products / kProductDepth) * 0x1p-24; }

// Copies `from` [kHeight, width] to panels. All threads of the block must call it.
template <int kHeight>
__device__ void Store(const BF16* from, int width, BF16* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kHeight * width;
       i += static_cast<int>(blockDim.x)) {
    to[Panels<kHeight>::Place(i / width, i % width)] = from[i];
  }
}

int FirstRow() { return static_cast<int>(threadIdx.x) / kWarpgroupThreads * kWarpgroupRows; }

// Calls visit(tile, i, row, column) for each element of this thread: element i of tile `tile` has
// that row and column.
template <typename Visit>
__device__ void ForResults(int tiles, const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 + lane / 4;
  for (int tile = 0; tile < tiles; ++tile) {
    for (int i = 0; i < 4; ++i) visit(tile, i, row + i / 2 * 8, tile * 8 + lane % 4 * 2 + i % 2);
  }
}

// scores [kRows, kKeys] = a [kRows, depth] keys [kKeys, depth]^T.
__global__ void ScoreKernel(const BF16* a, const BF16* keys, int depth, float* scores) {
  auto* rows = SharedMemory<BF16>();
  BF16* columns = rows + kRows * depth;
  Store<kRows>(a, depth, rows);
  Store<kKeys>(keys, depth, columns);
  FenceSharedWrites();
  __syncthreads();
  float d[kKeys / 8][4];
  FenceProducts();
  for (int k = 0; k < depth; k += kProductDepth) {
    StartProduct(d, Panels<kRows>::AlongRows(rows, FirstRow(), k),
                 Panels<kKeys>::AlongRows(columns, 0, k), k > 0);
  }
  CommitProducts();
  WaitForProducts<0>();
  ForResults(kKeys / 8, [&](int tile, int i, int row, int column) {
    scores[row * kKeys + column] = d[tile][i];
  });
}

TEST(Wgmma, MultipliesRowsByRows) {
  for (const int depth : {64, 128}) {
    const std::vector<BF16> a = RandomBF16(kRows * depth), keys = RandomBF16(kKeys * depth);
    std::vector<float> scores(kRows * kKeys);
    Stream stream;
    Launch(stream, {1, kGroups * kWarpgroupThreads, (a.size() + keys.size()) * sizeof(BF16)},
           ScoreKernel, a.data(), keys.data(), depth, scores.data());
    ASSERT_TRUE(stream.ok());
    const auto columns = static_cast<size_t>(depth);
    EXPECT_TRUE(IsProduct({kRows, kKeys, columns}, Elements(scores, kKeys), Elements(a, columns),
                          Transposed(keys, columns), SumTolerance(depth)));
  }
}

// The mistakes that a thread can make in SumKernel.
enum class Mistake {
  kNone,
  kNoSharedFence,       // no fence for values that later products read
  kReadsEarly,          // reads results before the wait
  kOverwritesShared,    // overwrites memory before the wait
  kOverwritesRegisters  // overwrites registers before the wait
};

// sums [kRows, 8 kTiles] = weights [kRows, kKeys] values [kKeys, 8 kTiles], in pieces of 16 keys,
// one after the other. Each piece is a group.
template <int kTiles>
__global__ void SumKernel(const BF16* weights, const BF16* values, Mistake mistake, float* sums) {
  auto* rows = SharedMemory<BF16>();
  float d[kTiles][4] = {};
  for (int k = 0; k < kKeys; k += kProductDepth) {
    uint32_t a[4] = {};
    ForResults(kProductDepth / 8, [&](int tile, int i, int row, int column) {
      const uint32_t bits = weights[row * kKeys + k + column].bits;
      a[tile * 2 + i / 2] |= bits << i % 2 * 16;
    });
    __syncthreads();
    Store<kProductDepth>(values + k * kTiles * 8, kTiles * 8, rows);
    if (mistake != Mistake::kNoSharedFence || k == 0) FenceSharedWrites();
    __syncthreads();
    FenceProducts();
    StartProduct(d, a, Panels<kProductDepth>::AcrossRows(rows, 0));
    CommitProducts();
    if (mistake == Mistake::kOverwritesRegisters) a[1] = 0;
    if (mistake == Mistake::kOverwritesShared) {
      __syncthreads();
      rows[Panels<kProductDepth>::Place(3, 5)] = BF16{};
      __syncthreads();
    }
    float early[kTiles][4];
    std::copy_n(&d[0][0], kTiles * 4, &early[0][0]);
    WaitForProducts<0>();
    if (mistake == Mistake::kReadsEarly) std::copy_n(&early[0][0], kTiles * 4, &d[0][0]);
  }
  ForResults(kTiles, [&](int tile, int i, int row, int column) {
    sums[row * kTiles * 8 + column] = d[tile][i];
  });
}

// Whether the sums are the product.
template <int kTiles>
testing::AssertionResult SumsAreRight(Mistake mistake) {
  constexpr int kWidth = kTiles * 8;
  const std::vector<BF16> weights = RandomBF16(kRows * kKeys), values = RandomBF16(kKeys * kWidth);
  std::vector<float> sums(kRows * kWidth);
  Stream stream;
  Launch(stream, {1, kGroups * kWarpgroupThreads, kProductDepth * kWidth * sizeof(BF16)},
         SumKernel<kTiles>, weights.data(), values.data(), mistake, sums.data());
  EXPECT_TRUE(stream.ok());
  return IsProduct({kRows, kWidth, kKeys}, Elements(sums, kWidth), Elements(weights, kKeys),
                   Elements(values, kWidth), SumTolerance(kKeys));
}

TEST(Wgmma, MultipliesRegistersByRows) {
  EXPECT_TRUE(SumsAreRight<8>(Mistake::kNone));
  EXPECT_TRUE(SumsAreRight<16>(Mistake::kNone));
}

TEST(Wgmma, ShowsWhatIsReadOrWrittenTooEarly) {
  for (const Mistake mistake : {Mistake::kNoSharedFence, Mistake::kReadsEarly,
                                Mistake::kOverwritesShared, Mistake::kOverwritesRegisters}) {
    EXPECT_FALSE(SumsAreRight<8>(mistake)) << static_cast<int>(mistake);
  }
}

// Descriptors and places, written out by hand from PTX's canonical layouts, with offsets of 16384
// and 1024 bytes: bit 62, bit 42 (1024 / 16 = 64 is bit 6 of the stride), and the bits of the
// beginning.
TEST(Wgmma, MatricesLieAsPtxSays) {
  constexpr uint64_t kStride = uint64_t{64} << 32, kSwizzle = uint64_t{1} << 62;
  const uint64_t along = kSwizzle | kStride | uint64_t{1} << 16 | 2048 / 16;
  // Row 0; row 1, where swizzling exchanges neighbouring pieces; row 7; the second pattern.
  EXPECT_EQ(simt::PlaceOf(along, false, 0, 0), 2048u);
  EXPECT_EQ(simt::PlaceOf(along, false, 0, 9), 2048u + 16 + 2);
  EXPECT_EQ(simt::PlaceOf(along, false, 1, 0), 2048u + 128 + 16);
  EXPECT_EQ(simt::PlaceOf(along, false, 1, 8), 2048u + 128);
  EXPECT_EQ(simt::PlaceOf(along, false, 7, 3), 2048u + 7 * 128 + 7 * 16 + 6);
  EXPECT_EQ(simt::PlaceOf(along, false, 10, 0), 2048u + 1024 + 2 * 128 + 2 * 16);
  // 16 columns further is 32 bytes further, before the swizzle. So piece 2 of row 3 is at place 1.
  EXPECT_EQ(simt::PlaceOf(along + 2, false, 3, 0), 2048u + 3 * 128 + 16);
  // Across rows: k counts rows, and columns from 64 on are 16384 bytes further, in the next panel.
  const uint64_t across = kSwizzle | kStride | uint64_t{1024} << 16;
  EXPECT_EQ(simt::PlaceOf(across, true, 0, 1), 128u + 16);
  EXPECT_EQ(simt::PlaceOf(across, true, 17, 2), 2u * 128 + (2 ^ 2) * 16 + 2);
  EXPECT_EQ(simt::PlaceOf(across, true, 64, 0), 16384u);
  EXPECT_EQ(simt::PlaceOf(across, true, 70, 9), 16384u + 1024 + 128 + 16 + 12);
}

__global__ void DescribeKernel(uint64_t* matrices) {
  auto* panels = SharedMemory<BF16>();
  matrices[0] = Panels<128>::AlongRows(panels, 64, 16);
  matrices[1] = Panels<128>::AlongRows(panels, 0, 96);
  matrices[2] = Panels<128>::AcrossRows(panels, 16);
}

TEST(Wgmma, DescribesMatrices) {
  std::vector<uint64_t> matrices(3);
  Stream stream;
  Launch(stream, {1, 1, 32768}, DescribeKernel, matrices.data());
  ASSERT_TRUE(stream.ok());
  // Row 64 begins at 64 * 128 bytes. Column 16 is 32 bytes further. Column 96 is the 32nd of the
  // next panel.
  EXPECT_EQ(matrices[0], 0x4000'0040'0001'0000u | (64 * 128 + 32) / 16);
  EXPECT_EQ(matrices[1], 0x4000'0040'0001'0000u | (128 * 128 + 64) / 16);
  EXPECT_EQ(matrices[2], 0x4000'0040'0400'0000u | 16 * 128 / 16);
}

// Runs the steps of a product, but leaves out step number `without`.
__global__ void IncompleteKernel(int without) {
  auto* panels = SharedMemory<BF16>();
  float d[8][4] = {};
  const uint32_t a[4] = {};
  for (int i = 0; i < 8; ++i) panels[threadIdx.x * 8 + static_cast<unsigned>(i)] = BF16{};
  if (without != 0) FenceSharedWrites();
  __syncthreads();
  if (without != 1) FenceProducts();
  if (without != 2 || threadIdx.x < 96) {
    StartProduct(d, a, Panels<16>::AcrossRows(panels, 0));
  }
  if (without == 5) StartProduct(d, a, Panels<16>::AcrossRows(panels + threadIdx.x / 64 * 8, 0));
  if (without != 3) CommitProducts();
  if (without != 4) WaitForProducts<0>();
}

TEST(WgmmaDeathTest, EndsTheProcess) {
  const auto run = [](int without) {
    Stream stream;
    Launch(stream, {1, kWarpgroupThreads, 2048}, IncompleteKernel, without);
  };
  run(-1);
  EXPECT_DEATH(run(0), "before any write to shared memory was fenced");
  EXPECT_DEATH(run(1), "without a fence before it");
  EXPECT_DEATH(run(2), "96 for their warp.*|no thread can go on");
  EXPECT_DEATH(run(3), "products that it did not wait for");
  EXPECT_DEATH(run(4), "products that it did not wait for");
  EXPECT_DEATH(run(5), "differ between the threads of a warpgroup");
}

}  // namespace
}  // namespace longstream::cuda
