// Compares the tensor-core operations of kernels/cuda/primitives/mma.cuh with plain loops, in the
// layouts that PTX defines.
#include "kernels/cuda/primitives/mma.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/split_product.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "tests/simt/products.h"

namespace longstream::cuda {
namespace {

constexpr int kRows = 16, kColumns = 8, kDepth = 16;

// The error of the sum of `products` exact products and an f32, relative to the sum of their
// magnitudes (tests/simt/harness/tensor_sum.h).
double SumTolerance(int products) { return (products + 3) * 0x1p-24; }

TEST(TensorSum, CutsOffWhatIsBelowTheLargest) {
  const auto sum = [](double x, double y, double z) {
    const double addends[] = {x, y, z};
    return simt::TensorSum(addends);
  };
  EXPECT_EQ(sum(1, 0x1p-23, 0x1p-23), 1 + 0x1p-22f);
  // Of each addend one bit more than f32 has is kept. It is cut off at the end.
  EXPECT_EQ(sum(1, 0x1p-24, 0x1p-24), 1 + 0x1p-23f);
  EXPECT_EQ(sum(1, 0x1p-24, 0), 1.0f);
  EXPECT_EQ(sum(-1, -0x1.8p-24, 0), -1.0f);
  EXPECT_EQ(sum(1, 0x1.fp-25, 0x1.fp-25), 1.0f);  // rounding to nearest would give 1 + 2^-23
  // The addends are not summed from the first to the last, but all at once.
  EXPECT_EQ(sum(0x1p30, 1, -0x1p30), 0.0f);
  EXPECT_EQ(sum(0, 0, 0), 0.0f);
  EXPECT_TRUE(std::isnan(sum(INFINITY, -INFINITY, 1)));
  EXPECT_EQ(sum(INFINITY, 1, 1), INFINITY);
}

// Loads four matrices [8, 8] that follow each other, with rows 16 bytes apart.
__global__ void LoadKernel(const BF16* rows, uint32_t* loaded, uint32_t* transposed) {
  auto* shared = SharedMemory<BF16>();
  for (int i = 0; i < 8; ++i) shared[threadIdx.x * 8 + i] = rows[threadIdx.x * 8 + i];
  __syncthreads();
  uint32_t r[4];
  LoadMatrices(r, shared + threadIdx.x * 8);
  for (int i = 0; i < 4; ++i) loaded[threadIdx.x * 4 + i] = r[i];
  LoadMatricesTransposed(r, shared + threadIdx.x * 8);
  for (int i = 0; i < 4; ++i) transposed[threadIdx.x * 4 + i] = r[i];
}

uint32_t PairOf(BF16 low, BF16 high) { return low.bits | static_cast<uint32_t>(high.bits) << 16; }

TEST(Mma, LoadsMatricesAndTheirTransposes) {
  const std::vector<BF16> rows = RandomBF16(4 * 8 * 8);
  std::vector<uint32_t> loaded(32 * 4), transposed(32 * 4);
  Stream stream;
  Launch(stream, {1, kWarp, rows.size() * sizeof(BF16)}, LoadKernel, rows.data(), loaded.data(),
         transposed.data());
  ASSERT_TRUE(stream.ok());
  for (size_t matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](size_t row, size_t column) { return rows[matrix * 64 + row * 8 + column]; };
    for (size_t g = 0; g < 8; ++g) {
      for (size_t t = 0; t < 4; ++t) {
        const size_t lane = 4 * g + t;
        EXPECT_EQ(loaded[lane * 4 + matrix], PairOf(at(g, 2 * t), at(g, 2 * t + 1)));
        EXPECT_EQ(transposed[lane * 4 + matrix], PairOf(at(2 * t, g), at(2 * t + 1, g)));
      }
    }
  }
}

// Calls multiply(sums) with this thread's elements of d [16, 8].
template <typename T, typename Multiply>
__device__ void AddTo(T* d, const Multiply& multiply) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  T sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = d[(g + i / 2 * 8) * kColumns + 2 * t + i % 2];
  multiply(sums);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * kColumns + 2 * t + i % 2] = sums[i];
}

// d [16, 8] += a [16, 16] b [16, 8]. The fragments are filled element by element, as mma.cuh says.
__global__ void MultiplyKernel(const BF16* a, const BF16* b, float* d) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto row_pair = [&](int row, int k) {
    return a[row * kDepth + k].bits | static_cast<uint32_t>(a[row * kDepth + k + 1].bits) << 16;
  };
  const auto column_pair = [&](int k) {
    return b[k * kColumns + g].bits | static_cast<uint32_t>(b[(k + 1) * kColumns + g].bits) << 16;
  };
  const uint32_t row_fragment[4] = {row_pair(g, 2 * t), row_pair(g + 8, 2 * t),
                                    row_pair(g, 2 * t + 8), row_pair(g + 8, 2 * t + 8)};
  const uint32_t column_fragment[2] = {column_pair(2 * t), column_pair(2 * t + 8)};
  AddTo(d, [&](float(&sums)[4]) { MultiplyAdd(sums, row_fragment, column_fragment); });
}

TEST(Mma, MultipliesAndAdds) {
  const std::vector<BF16> a = RandomBF16(kRows * kDepth), b = RandomBF16(kDepth * kColumns);
  std::vector<float> start(kRows * kColumns);
  std::iota(start.begin(), start.end(), 0.0f);
  std::vector<float> d = start;
  Stream stream;
  Launch(stream, {1, kWarp}, MultiplyKernel, a.data(), b.data(), d.data());
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(IsProduct({kRows, kColumns, kDepth}, Elements(d, kColumns), Elements(a, kDepth),
                        Elements(b, kColumns), SumTolerance(kDepth), Elements(start, kColumns)));
}

// d [16, 8] += a [16, 32] b [32, 8] in int8, with fragments that are filled element by element.
__global__ void MultiplyBytesKernel(const int8_t* a, const int8_t* b, int32_t* d) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto four = [](const int8_t* from, int step) {
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) {
      bytes |= static_cast<uint32_t>(static_cast<uint8_t>(from[i * step])) << (8 * i);
    }
    return bytes;
  };
  const auto row_four = [&](int row, int k) { return four(a + row * 32 + k, 1); };
  const auto column_four = [&](int k) { return four(b + k * kColumns + g, kColumns); };
  const uint32_t row_fragment[4] = {row_four(g, 4 * t), row_four(g + 8, 4 * t),
                                    row_four(g, 4 * t + 16), row_four(g + 8, 4 * t + 16)};
  const uint32_t column_fragment[2] = {column_four(4 * t), column_four(4 * t + 16)};
  AddTo(d, [&](int32_t(&sums)[4]) { MultiplyAdd(sums, row_fragment, column_fragment); });
}

TEST(Mma, MultipliesBytesExactly) {
  std::mt19937 engine(1);
  std::uniform_int_distribution<int> byte(-128, 127);
  std::vector<int8_t> a(kRows * 32), b(32 * kColumns);
  for (auto* bytes : {&a, &b}) {
    for (int8_t& value : *bytes) value = static_cast<int8_t>(byte(engine));
  }
  std::vector<int32_t> start(kRows * kColumns);
  std::iota(start.begin(), start.end(), 0);
  std::vector<int32_t> d = start;
  Stream stream;
  Launch(stream, {1, kWarp}, MultiplyBytesKernel, a.data(), b.data(), d.data());
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(IsProduct({kRows, kColumns, 32}, Elements(d, kColumns), Elements(a, 32),
                        Elements(b, kColumns), 0, Elements(start, kColumns)));
}

float RandomTF32(std::mt19937& engine) {
  std::normal_distribution<float> normal;
  return __uint_as_float(__float_as_uint(normal(engine)) & kTF32Bits);
}

// d [16, 8] += a [16, 8] b [8, 8] in TF32, with fragments that are filled element by element.
__global__ void MultiplyTF32Kernel(const float* a, const float* b, float* d) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto bits = [](float x) { return __float_as_uint(x); };
  const uint32_t row_fragment[4] = {bits(a[g * 8 + t]), bits(a[(g + 8) * 8 + t]),
                                    bits(a[g * 8 + t + 4]), bits(a[(g + 8) * 8 + t + 4])};
  const uint32_t column_fragment[2] = {bits(b[t * kColumns + g]), bits(b[(t + 4) * kColumns + g])};
  AddTo(d, [&](float(&sums)[4]) { MultiplyAddTF32(sums, row_fragment, column_fragment); });
}

// d [16, 8] += a [16, 8] b [8, 8] in f32. Each factor is the sum of two TF32 numbers.
__global__ void MultiplySplitKernel(const float* a, const float* b, float* d) {
  auto* shared = SharedMemory<float>();
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  for (int i = static_cast<int>(threadIdx.x); i < 128; i += kWarp) {
    shared[i] = a[i];
    shared[128 + i] = i < 64 ? b[i % 8 * kColumns + i / 8] : 0.0f;  // each row is a column of b
  }
  __syncthreads();
  SplitB columns[2];
  LoadTransposedB(shared + 128, 8, columns);
  float sums[2][4] = {};
  for (int n = 0; n < 2; ++n) MultiplyAddSplit(sums[n], LoadA(shared, 8), columns[n]);
  for (int i = 0; i < 4; ++i) {
    d[(g + i / 2 * 8) * kColumns + 2 * t + i % 2] = sums[0][i] + sums[1][i];
  }
}

TEST(Mma, MultipliesAndAddsTF32) {
  std::mt19937 engine(1);
  std::vector<float> a(kRows * 8), b(8 * kColumns), d(kRows * kColumns, 0.0f);
  for (float& x : a) x = RandomTF32(engine);
  for (float& x : b) x = RandomTF32(engine);
  Stream stream;
  Launch(stream, {1, kWarp}, MultiplyTF32Kernel, a.data(), b.data(), d.data());
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(IsProduct({kRows, kColumns, 8}, Elements(d, kColumns), Elements(a, 8),
                        Elements(b, kColumns), SumTolerance(8)));
}

TEST(Mma, SplitsF32) {
  std::mt19937 engine(2);
  std::normal_distribution<float> normal;
  std::vector<float> a(kRows * 8), b(8 * kColumns), d(kRows * kColumns);
  for (float& x : a) x = normal(engine);
  for (float& x : b) x = normal(engine);
  Stream stream;
  Launch(stream, {1, kWarp, 256 * sizeof(float)}, MultiplySplitKernel, a.data(), b.data(),
         d.data());
  ASSERT_TRUE(stream.ok());
  // 8 eps for each product (split_product.cuh), and the errors of three sums.
  EXPECT_TRUE(IsProduct({kRows, kColumns, 8}, Elements(d, kColumns), Elements(a, 8),
                        Elements(b, kColumns), 8 * 0x1p-24 + 3 * SumTolerance(8)));
}

// The operations in the order of attention: the scores of 16 rows and 16 keys, then their products
// with 16 values, from rows in shared memory.
__global__ void ChainKernel(const BF16* q, const BF16* keys, float* scores, float* sums) {
  auto* shared = SharedMemory<BF16>();
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  for (int i = lane; i < 256; i += kWarp) {
    shared[i] = q[i];
    shared[256 + i] = keys[i];
  }
  __syncthreads();
  uint32_t a[4], b[4];
  LoadMatrices(a, shared + lane % 16 * 16 + lane / 16 * 8);
  LoadMatrices(b, shared + 256 + (lane / 16 * 8 + lane % 8) * 16 + lane / 8 % 2 * 8);
  float s[2][4] = {};
  MultiplyAdd(s[0], a, {b[0], b[1]});
  MultiplyAdd(s[1], a, {b[2], b[3]});
  const uint32_t weights[4] = {PackBF16(s[0][0], s[0][1]), PackBF16(s[0][2], s[0][3]),
                               PackBF16(s[1][0], s[1][1]), PackBF16(s[1][2], s[1][3])};
  LoadMatricesTransposed(b, shared + 256 + lane % 16 * 16 + lane / 16 * 8);
  float o[2][4] = {};
  MultiplyAdd(o[0], weights, {b[0], b[1]});
  MultiplyAdd(o[1], weights, {b[2], b[3]});
  for (int tile = 0; tile < 2; ++tile) {
    for (int i = 0; i < 4; ++i) {
      const int index = (g + i / 2 * 8) * 16 + tile * 8 + 2 * t + i % 2;
      scores[index] = s[tile][i];
      sums[index] = o[tile][i];
    }
  }
}

TEST(Mma, ChainsTheProductsOfAttention) {
  const std::vector<BF16> q = RandomBF16(256), keys = RandomBF16(257);
  std::vector<float> scores(256), sums(256);
  Stream stream;
  Launch(stream, {1, kWarp, 512 * sizeof(BF16)}, ChainKernel, q.data(), keys.data(), scores.data(),
         sums.data());
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(IsProduct({16, 16, 16}, Elements(scores, 16), Elements(q, 16), Transposed(keys, 16),
                        SumTolerance(16)));
  std::vector<BF16> weights(scores.size());
  std::transform(scores.begin(), scores.end(), weights.begin(), ToBF16);
  EXPECT_TRUE(IsProduct({16, 16, 16}, Elements(sums, 16), Elements(weights, 16), Elements(keys, 16),
                        SumTolerance(16)));
}

}  // namespace
}  // namespace longstream::cuda
