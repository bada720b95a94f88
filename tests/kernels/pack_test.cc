// Packing on every instruction set: what goes in comes out (read back as an embedding table), from
// one source or several, whatever the threads.
#include "kernels/ops/pack.h"

#include <cstring>
#include <numeric>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class PackTest : public OpTest {
 protected:
  // All rows of a packed weight, through the embed op.
  OwnedMatrix Unpack(const OpTable& table, const PackedWeight& weight) {
    std::vector<int32_t> ids(static_cast<size_t>(weight.n));
    std::iota(ids.begin(), ids.end(), 0);
    OwnedMatrix out(weight.n, weight.k);
    OwnedStream stream(0);
    table.embed(*stream, {weight, ids.data(), 1.0f, out.view()});
    return out;
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(PackTest);

TEST_P(PackTest, RoundTripOfEveryConversion) {
  Random random(1);
  const std::pair<DType, DType> conversions[] = {
      {DType::kF32, DType::kF32},  {DType::kF16, DType::kF32},   {DType::kBF16, DType::kF32},
      {DType::kF32, DType::kBF16}, {DType::kBF16, DType::kBF16}, {DType::kF16, DType::kF16},
  };
  for (const auto& [from, to] : conversions) {
    for (int64_t n : kOddSizes) {
      for (int64_t k : kOddSizes) {
        OwnedWeight source(n, k, from, random);
        for (const OpTable* table : {&ops(), &reference()}) {
          Buffer packed(table->packed_bytes(to, n, k));
          EXPECT_EQ(packed.size() % 64, 0u);
          std::memset(packed.data(), 0, packed.size());
          table->pack(ExecutorOf(2), {source.source(), from, n, 0, packed.data(), to, n, k});
          const OwnedMatrix rows = Unpack(*table, {packed.data(), to, n, k});
          for (int64_t r = 0; r < n; ++r) {
            for (int64_t c = 0; c < k; ++c) {
              ASSERT_EQ(rows.at(r, c), RoundTo(to, source.at(r, c)))
                  << table->name << " " << NameOf(from) << " to " << NameOf(to) << " [" << n << ", "
                  << k << "] at " << r << ", " << c;
            }
          }
        }
      }
    }
  }
}

// Q, K and V become one weight: sources at rows that are no multiple of a panel.
TEST_P(PackTest, SeveralSourcesGiveTheBytesOfOne) {
  Random random(2);
  constexpr int64_t kN = 101, kK = 35;
  const int64_t cuts[] = {0, 1, 40, 63, 101};
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    OwnedWeight source(kN, kK, type, random);
    const PackedWeight whole = source.Pack(ops());
    Buffer parts(ops().packed_bytes(type, kN, kK));
    std::memset(parts.data(), 0, parts.size());
    for (int i = 0; i < 4; ++i) {
      const auto* rows = static_cast<const std::byte*>(source.source()) +
                         static_cast<size_t>(cuts[i] * kK) * SizeOf(type);
      ops().pack(ExecutorOf(3),
                 {rows, type, cuts[i + 1] - cuts[i], cuts[i], parts.data(), type, kN, kK});
    }
    EXPECT_EQ(std::memcmp(parts.data(), whole.data, parts.size()), 0) << NameOf(type);
  }
}

}  // namespace
}  // namespace longstream
