// Tests the harness: it runs kernels, and it notices the mistakes that it must notice.
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

namespace longstream {
namespace {

template <bool kOverlaps = false, typename... Parameters, typename... Arguments>
void Start(dim3 grid, dim3 block, size_t shared, void (*kernel)(Parameters...),
           Arguments... arguments) {
  cudaLaunchAttribute overlap = {cudaLaunchAttributeProgrammaticStreamSerialization, {1}};
  cudaLaunchConfig_t config;
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.attrs = &overlap;
  config.numAttrs = kOverlaps ? 1 : 0;
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, arguments...), cudaSuccess);
}

// Runs the test with one order of threads.
class SimtTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { setenv("LONGSTREAM_SIMT_ORDER", GetParam(), 1); }
  void TearDown() override { unsetenv("LONGSTREAM_SIMT_ORDER"); }
};
INSTANTIATE_TEST_SUITE_P(Order, SimtTest, testing::Values("forward", "backward", "7"));

__global__ void WriteIndex(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += static_cast<int>(thread) + 1;
}

TEST_P(SimtTest, EveryThreadRunsOnce) {
  std::vector<int> out(2 * 3 * 4 * 30);
  Start({2, 3, 4}, {5, 3, 2}, 0, WriteIndex, out.data());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<int>(i % 30) + 1);
}

__global__ void ReverseBlock(const float* in, float* out) {
  auto* shared = reinterpret_cast<float*>(simt::SharedMemory());
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_P(SimtTest, ABarrierShowsWhatTheOthersWrote) {
  std::vector<float> in(96), out(96);
  std::iota(in.begin(), in.end(), 0.0f);
  Start(1, 96, 96 * sizeof(float), ReverseBlock, in.data(), out.data());
  for (size_t i = 0; i < 96; ++i) EXPECT_EQ(out[i], static_cast<float>(95 - i));
}

__global__ void ReverseWithoutBarrier(const float* in, float* out) {
  auto* shared = reinterpret_cast<float*>(simt::SharedMemory());
  shared[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_P(SimtTest, AMissingBarrierShowsAsNaN) {
  std::vector<float> in(64, 1.0f), out(64);
  Start(1, 64, 64 * sizeof(float), ReverseWithoutBarrier, in.data(), out.data());
  EXPECT_TRUE(std::any_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
}

struct Lanes {
  int reversed[64], sum[64], below[64], in_eights[64];
  unsigned ballot[64];
  int all_small[64], any_of_block[64], none_of_block[64];
};

__global__ void UseWarp(Lanes* out) {
  const int i = static_cast<int>(threadIdx.x);
  constexpr unsigned kAll = 0xffffffffu;
  out->reversed[i] = __shfl_sync(kAll, i, 31 - i % 32);
  int sum = i;
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAll, sum, lanes);
  out->sum[i] = sum;
  out->below[i] = __shfl_up_sync(kAll, i, 3);
  out->in_eights[i] = __shfl_sync(kAll, i, 2, 8);
  out->ballot[i] = __ballot_sync(kAll, i % 3 == 0);
  out->all_small[i] = __all_sync(kAll, i < 32);
  out->any_of_block[i] = __syncthreads_or(i == 33);
  out->none_of_block[i] = __syncthreads_or(i > 64);
}

TEST_P(SimtTest, WarpsExchangeValues) {
  Lanes out;
  Start(1, 64, 0, UseWarp, &out);
  for (int i = 0; i < 64; ++i) {
    const int first = i / 32 * 32;
    EXPECT_EQ(out.reversed[i], first + 31 - i % 32);
    EXPECT_EQ(out.sum[i], 31 * 16 + 32 * first);
    EXPECT_EQ(out.below[i], i % 32 >= 3 ? i - 3 : i);
    EXPECT_EQ(out.in_eights[i], i / 8 * 8 + 2);
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; ++lane) ballot |= (first + lane) % 3 == 0 ? 1u << lane : 0u;
    EXPECT_EQ(out.ballot[i], ballot);
    EXPECT_EQ(out.all_small[i] != 0, first == 0);
    EXPECT_NE(out.any_of_block[i], 0);
    EXPECT_EQ(out.none_of_block[i], 0);
  }
}

// Lane i adds the values that lanes 0 to i gave. It does so twice, so that a lane that is ahead
// could spoil the first sum.
__global__ void SumGathered(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  int sum = 0;
  for (int round = 0; round < 2; ++round) {
    const simt::Gathered<int> of(i + round);
    for (int lane = 0; lane <= i % 32; ++lane) sum += of[lane];
  }
  out[i] = sum;
}

TEST_P(SimtTest, AWarpGathersValues) {
  std::vector<int> out(64);
  Start(1, 64, 0, SumGathered, out.data());
  for (int i = 0; i < 64; ++i) {
    const int n = i % 32 + 1, first = i / 32 * 32;
    EXPECT_EQ(out[static_cast<size_t>(i)], n * (n - 1) + n * (2 * first + 1));
  }
}

// The two halves of a warp do different operations.
__global__ void UseHalfWarps(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < 16) {
    out[i] = __shfl_sync(0x0000ffffu, i, 15 - i);
  } else {
    int sum = i;
    for (int lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffff0000u, sum, lanes);
    out[i] = sum;
  }
  __syncwarp();
}

TEST_P(SimtTest, LanesMayDivergeUnderTheirOwnMask) {
  std::vector<int> out(32);
  Start(1, 32, 0, UseHalfWarps, out.data());
  for (int i = 0; i < 16; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 15 - i);
  for (size_t i = 16; i < 32; ++i) EXPECT_EQ(out[i], (16 + 31) * 8);
}

__global__ void CopyAsync(const float* in, float* out, size_t valid_bytes) {
  auto* shared = reinterpret_cast<float*>(simt::SharedMemory());
  for (int stage = 0; stage < 2; ++stage) {
    __pipeline_memcpy_async(shared + 4 * stage, in + 4 * stage, 16,
                            stage == 0 ? 0 : 16 - valid_bytes);
    __pipeline_commit();
  }
  __pipeline_wait_prior(1);
  for (int i = 0; i < 4; ++i) out[i] = shared[i];
  __pipeline_wait_prior(0);
  for (int i = 4; i < 8; ++i) out[i] = shared[i];
}

TEST_P(SimtTest, CopiesAreThereOnceWaitedFor) {
  alignas(16) const float in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float out[8];
  Start(1, 1, 32, CopyAsync, in, out, 8);
  const float expected[8] = {1, 2, 3, 4, 5, 6, 0, 0};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]);
}

__global__ void ReadTooEarly(const float* in, float* out) {
  auto* shared = reinterpret_cast<float*>(simt::SharedMemory());
  __pipeline_memcpy_async(shared, in, 4);
  __pipeline_commit();
  *out = *shared;
  __pipeline_wait_prior(0);
}

TEST(SimtCopyTest, ACopyNotWaitedForIsNotThere) {
  const float in = 1.0f;
  float out = 0.0f;
  Start(1, 1, 4, ReadTooEarly, &in, &out);
  EXPECT_TRUE(std::isnan(out));
}

__global__ void HalfAtBarrier() {
  if (threadIdx.x < 16) __syncthreads();
}
__global__ void HalfAtShuffle() {
  if (threadIdx.x < 16) __shfl_sync(0xffffffffu, 1, 0);
}
__global__ void OutsideTheMask() {
  if (threadIdx.x < 16) __shfl_sync(0x0000ffffu, 1, 16);
}
__global__ void NotInItsMask() { __syncwarp(0x0000ffffu); }
__global__ void LanesThatAreNotThere() { __syncwarp(); }
__global__ void LeavesACopy(const float* in) {
  __pipeline_memcpy_async(simt::SharedMemory(), in, 4);
  __pipeline_commit();
}
__global__ void MisalignedCopy(const float* in) {
  __pipeline_memcpy_async(simt::SharedMemory(), in + 1, 16);
}
__global__ void HalfAwaits() {
  if (threadIdx.x < 16) simt::AwaitEarlierKernels();
}
__global__ void Prefetches(const void* address) { simt::Prefetch(address); }
__global__ void Nothing() {}

TEST(SimtDeathTest, MistakesEndTheProcessWithASentence) {
  alignas(16) const float in[8] = {};
  EXPECT_DEATH(Start(1, 32, 0, HalfAtBarrier), "16 of 32 wait at __syncthreads.*16 have returned");
  EXPECT_DEATH(Start(1, 32, 0, HalfAtShuffle), "16 for their warp.*a shuffle of lanes ffffffff");
  EXPECT_DEATH(Start(1, 32, 0, OutsideTheMask), "a shuffle from lane 16, which is not in its mask");
  EXPECT_DEATH(Start(1, 32, 0, NotInItsMask), "lanes that do not include its own");
  EXPECT_DEATH(Start(1, 20, 0, LanesThatAreNotThere), "lanes that the block does not have");
  EXPECT_DEATH(Start(1, 1, 4, LeavesACopy, in), "copies that it did not wait for");
  EXPECT_DEATH(Start(1, 1, 16, MisalignedCopy, in), "16 bytes that is not aligned");
  EXPECT_DEATH(Start<true>(1, 32, 0, HalfAwaits),
               "thread \\(16, 0, 0\\): a thread ended that had not awaited the kernels before");
  EXPECT_DEATH(Start(1, 1025, 0, Nothing), "a block of 1025 threads");
  EXPECT_DEATH(Start({1, 70000}, 1, 0, Nothing), "a grid of \\(1, 70000, 1\\) blocks");
  EXPECT_DEATH(Start(1, 1, 50000, Nothing), "the kernel may have 49152");
  EXPECT_DEATH(cudaFuncSetAttribute(Nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 300000),
               "a block has at most 166912");
}

TEST(SimtDeathTest, OnlyWhatOverlapsMustAwait) { Start(1, 32, 0, HalfAwaits); }

TEST(SimtDeathTest, OnlyMemoryThatIsThereIsPrefetched) {
  constexpr size_t kPage = 4096;
  void* const pages =
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::byte* const second = static_cast<std::byte*>(pages) + kPage;
  ASSERT_EQ(mprotect(second, kPage, PROT_NONE), 0);
  Start(1, 1, 0, Prefetches, second - 1);
  EXPECT_DEATH(Start(1, 1, 0, Prefetches, second), "");
  munmap(pages, 2 * kPage);
}

TEST(SimtDeathTest, AKernelMayAskForMoreSharedMemory) {
  cudaFuncSetAttribute(Nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000);
  Start(1, 1, 50000, Nothing);
  // The last call counts, as on a device.
  cudaFuncSetAttribute(Nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 49999);
  EXPECT_DEATH(Start(1, 1, 50000, Nothing), "the kernel may have 49999");
}

}  // namespace
}  // namespace longstream
