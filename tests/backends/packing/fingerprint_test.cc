// The hash of weights.
#include "backends/packing/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/core/thread_pool.h"

namespace longstream {
namespace {

std::vector<std::byte> Bytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST(FingerprintTest, EveryBitCounts) {
  for (const size_t size : {1u, 15u, 64u, 65u, 200u}) {
    std::vector<std::byte> bytes = Bytes(size);
    std::set<uint64_t> seen = {HashBytes(bytes, Executor())};
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      EXPECT_TRUE(seen.insert(HashBytes(bytes, Executor())).second) << size << " bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
}

TEST(FingerprintTest, LengthCountsAmongZeros) {
  const std::vector<std::byte> zeros(300);
  std::set<uint64_t> seen;
  for (size_t size = 0; size <= zeros.size(); ++size) {
    EXPECT_TRUE(seen.insert(HashBytes(std::span(zeros).first(size), Executor())).second) << size;
  }
}

TEST(FingerprintTest, PiecesMayNotSwap) {
  constexpr size_t kMegabyte = size_t{1} << 20;
  std::vector<std::byte> bytes(3 * kMegabyte + 5);
  bytes[0] = std::byte{1};
  const uint64_t first = HashBytes(bytes, Executor());
  bytes[0] = std::byte{0};
  bytes[kMegabyte] = std::byte{1};
  EXPECT_NE(HashBytes(bytes, Executor()), first);
}

TEST(FingerprintTest, ThreadsChangeNothing) {
  const std::vector<std::byte> bytes = Bytes((size_t{5} << 20) + 17);
  const uint64_t alone = HashBytes(bytes, Executor());
  for (const uint32_t threads : {2u, 5u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(HashBytes(bytes, pool.AsExecutor()), alone);
  }
}

TEST(FingerprintTest, AppendedTextAndNumbersKeepTheirOrder) {
  EXPECT_NE(HashAppend(HashAppend(1, "a"), "b"), HashAppend(HashAppend(1, "b"), "a"));
  EXPECT_NE(HashAppend(HashAppend(1, "ab"), "c"), HashAppend(HashAppend(1, "a"), "bc"));
  EXPECT_NE(HashAppend(HashAppend(1, uint64_t{2}), uint64_t{3}),
            HashAppend(HashAppend(1, uint64_t{3}), uint64_t{2}));
}

}  // namespace
}  // namespace longstream
