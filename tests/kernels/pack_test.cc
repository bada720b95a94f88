// Packing on every instruction set: what goes in comes out (read back as an embedding table), from
// one source or several, whatever the threads.
#include "kernels/ops/pack.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/core/quantise.h"
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

// Elements are those of QuantiseGroup, and a weight takes 8.5 or 4.5 bits, in whole panels.
TEST_P(PackTest, RoundTripOfGroups) {
  Random random(3);
  for (DType from : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType to : {DType::kI8, DType::kI4}) {
      for (int64_t n : kOddSizes) {
        for (int64_t k : kOddSizes) {
          OwnedWeight source(n, k, from, random);
          Buffer packed(ops().packed_bytes(to, n, k));
          std::memset(packed.data(), 0, packed.size());
          ops().pack(ExecutorOf(2), {source.source(), from, n, 0, packed.data(), to, n, k});
          const OwnedMatrix rows = Unpack(ops(), {packed.data(), to, n, k});
          for (int64_t r = 0; r < n; ++r) {
            for (int64_t first = 0; first < k; first += kGroupInputs) {
              const int64_t count = std::min(kGroupInputs, k - first);
              std::vector<float> weights;
              for (int64_t i = 0; i < count; ++i) weights.push_back(source.at(r, first + i));
              const WeightGroup group = QuantiseGroup(to, weights.data(), count);
              for (int64_t i = 0; i < count; ++i) {
                ASSERT_EQ(rows.at(r, first + i), ToF32(group.scale) * group.values[i])
                    << NameOf(from) << " to " << NameOf(to) << " [" << n << ", " << k << "] at "
                    << r << ", " << first + i;
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(ops().packed_bytes(DType::kI8, 256, 1024), size_t{256 * 1024 * 17 / 16});
  EXPECT_EQ(ops().packed_bytes(DType::kI4, 256, 1024), size_t{256 * 1024 * 9 / 16});
}

// Q, K and V become one weight: sources at rows that are no multiple of a panel.
TEST_P(PackTest, SeveralSourcesGiveTheBytesOfOne) {
  Random random(2);
  constexpr int64_t kN = 101, kK = 35;
  const int64_t cuts[] = {0, 1, 40, 63, 101};
  for (DType type : kWeightTypes) {
    OwnedWeight source(kN, kK, type, random);
    const PackedWeight whole = source.Pack(ops());
    Buffer parts(ops().packed_bytes(type, kN, kK));
    std::memset(parts.data(), 0, parts.size());
    for (int i = 0; i < 4; ++i) {
      const DType from = source.source_type();
      const auto* rows = static_cast<const std::byte*>(source.source()) +
                         static_cast<size_t>(cuts[i] * kK) * SizeOf(from);
      ops().pack(ExecutorOf(3),
                 {rows, from, cuts[i + 1] - cuts[i], cuts[i], parts.data(), type, kN, kK});
    }
    EXPECT_EQ(std::memcmp(parts.data(), whole.data, parts.size()), 0) << NameOf(type);
  }
}

}  // namespace
}  // namespace longstream
