// Packing on every instruction set. The embed op reads a packed weight back. So the tests see that
// packing keeps the weights, from one source or several and on any number of threads, and that
// compressing changes no weight.
#include "kernels/ops/gemm/pack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/quantise.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class PackTest : public OpTest {
 protected:
  // All rows of a packed weight, as the embed op reads them.
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

// The packed elements are those of QuantiseGroup. A weight of whole panels takes 8.5 bits an
// element (int8) or 4.5 bits (int4).
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

// Groups of the least and the greatest values, with scales of either sign and subnormal ones.
// Values beyond k are zero.
std::vector<WeightGroup> RandomGroups(DType type, int64_t n, int64_t k, Random& random) {
  std::vector<WeightGroup> groups(static_cast<size_t>(n * NumGroups(k)));
  const int least = type == DType::kI8 ? -127 : -8, greatest = type == DType::kI8 ? 127 : 7;
  for (size_t i = 0; i < groups.size(); ++i) {
    const int64_t first = static_cast<int64_t>(i) % NumGroups(k) * kGroupInputs;
    groups[i].scale = {
        static_cast<uint16_t>(random.Integer(0, 0x3fff) + 0x8000 * random.Integer(0, 1))};
    for (int64_t j = 0; j < std::min(kGroupInputs, k - first); ++j) {
      groups[i].values[j] = static_cast<int8_t>(random.Integer(least, greatest));
    }
  }
  return groups;
}

// Groups of a source are packed as they are, in the same places as quantised weights, from several
// sources and into panels that they do not fill.
TEST_P(PackTest, GroupsOfTheSourceAreKept) {
  Random random(11);
  const std::pair<DType, DType> conversions[] = {
      {DType::kI8, DType::kI8}, {DType::kI4, DType::kI4}, {DType::kI4, DType::kI8}};
  for (const auto& [from, to] : conversions) {
    for (int64_t n : kOddSizes) {
      for (int64_t k : kOddSizes) {
        const std::vector<WeightGroup> groups = RandomGroups(from, n, k, random);
        for (const OpTable* table : {&ops(), &reference()}) {
          Buffer packed(table->packed_bytes(to, n, k));
          std::memset(packed.data(), 0, packed.size());
          const int64_t cut = n / 3;
          table->pack(ExecutorOf(2), {groups.data(), from, cut, 0, packed.data(), to, n, k});
          table->pack(ExecutorOf(2), {groups.data() + cut * NumGroups(k), from, n - cut, cut,
                                      packed.data(), to, n, k});
          const OwnedMatrix rows = Unpack(*table, {packed.data(), to, n, k});
          for (int64_t r = 0; r < n; ++r) {
            for (int64_t c = 0; c < k; ++c) {
              const WeightGroup& group =
                  groups[static_cast<size_t>(r * NumGroups(k) + c / kGroupInputs)];
              ASSERT_EQ(rows.at(r, c), ToF32(group.scale) * group.values[c % kGroupInputs])
                  << table->name << " " << NameOf(from) << " to " << NameOf(to) << " [" << n << ", "
                  << k << "] at " << r << ", " << c;
            }
          }
        }
      }
    }
  }
}

// A weight that is quantised and packed as groups has the bytes that packing the weight itself
// gives.
TEST_P(PackTest, QuantisedGroupsGiveTheBytesOfTheirWeights) {
  Random random(12);
  constexpr int64_t kN = 70, kK = 75;
  for (DType type : {DType::kI8, DType::kI4}) {
    OwnedWeight source(kN, kK, DType::kF32, random);
    std::vector<WeightGroup> groups;
    for (int64_t r = 0; r < kN; ++r) {
      for (int64_t first = 0; first < kK; first += kGroupInputs) {
        const int64_t count = std::min(kGroupInputs, kK - first);
        const auto* row = static_cast<const float*>(source.source()) + r * kK + first;
        groups.push_back(QuantiseGroup(type, row, count));
      }
    }
    const size_t bytes = ops().packed_bytes(type, kN, kK);
    Buffer packed[2] = {Buffer(bytes), Buffer(bytes)};
    for (Buffer& buffer : packed) std::memset(buffer.data(), 0, bytes);
    ops().pack(ExecutorOf(2),
               {source.source(), DType::kF32, kN, 0, packed[0].data(), type, kN, kK});
    ops().pack(ExecutorOf(2), {groups.data(), type, kN, 0, packed[1].data(), type, kN, kK});
    EXPECT_EQ(std::memcmp(packed[0].data(), packed[1].data(), bytes), 0) << NameOf(type);
  }
}

// Several sources, such as Q, K and V, become one weight. They begin at rows that are no multiple
// of a panel.
TEST_P(PackTest, SeveralSourcesGiveTheBytesOfOne) {
  Random random(2);
  constexpr int64_t kN = 101, kK = 35;
  const int64_t cuts[] = {0, 1, 40, 63, 101};
  for (DType type : kWeightTypes) {
    OwnedWeight source(kN, kK, type, random);
    const PackedWeight whole = source.Pack(ops());  // packed and compressed
    Buffer parts(ops().packed_bytes(type, kN, kK));
    std::memset(parts.data(), 0, parts.size());
    for (int i = 0; i < 4; ++i) {
      const DType from = source.source_type();
      const auto* rows = static_cast<const std::byte*>(source.source()) +
                         static_cast<size_t>(cuts[i] * kK) * SizeOf(from);
      ops().pack(ExecutorOf(3),
                 {rows, from, cuts[i + 1] - cuts[i], cuts[i], parts.data(), type, kN, kK});
    }
    ops().compress(ExecutorOf(3), {parts.data(), type, kN, kK});
    EXPECT_EQ(std::memcmp(parts.data(), whole.data, parts.size()), 0) << NameOf(type);
  }
}

// bf16 weights [n, k]; bits(row, i) gives the bits of weight [row, i].
std::vector<BF16> Bits(int64_t n, int64_t k,
                       const std::function<uint16_t(int64_t, int64_t)>& bits) {
  std::vector<BF16> numbers;
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) numbers.push_back({bits(row, i)});
  }
  return numbers;
}

// Numbers near 1, which have 16 different upper bytes. In rows 5 and 21, one in `distance` inputs
// has another upper byte and needs a patch. The patches of the two rows lie in different registers.
std::vector<BF16> BitsWithExceptions(int64_t n, int64_t k, int64_t distance, Random& random) {
  return Bits(n, k, [&](int64_t row, int64_t i) {
    if ((row == 5 || row == 21) && (i + row) % distance == distance - 1) {
      return static_cast<uint16_t>(random.Integer(0, 0x2fff));  // upper bytes below 0x30
    }
    const int64_t upper = random.Integer(0x38, 0x3f) + 128 * random.Integer(0, 1);
    return static_cast<uint16_t>(upper << 8 | random.Integer(0, 255));
  });
}

class CompressTest : public PackTest {
 protected:
  // Packs the numbers, and compresses them if `compressed`.
  PackedWeight Pack(const std::vector<BF16>& numbers, int64_t n, int64_t k, bool compressed) {
    Buffer& packed = buffers_.emplace_back(ops().packed_bytes(DType::kBF16, n, k));
    std::memset(packed.data(), 0, packed.size());
    ops().pack(ExecutorOf(2),
               {numbers.data(), DType::kBF16, n, 0, packed.data(), DType::kBF16, n, k});
    if (compressed) ops().compress(ExecutorOf(2), {packed.data(), DType::kBF16, n, k});
    return {packed.data(), DType::kBF16, n, k};
  }

  void ExpectRows(const PackedWeight& weight, const std::vector<BF16>& numbers) {
    const OwnedMatrix rows = Unpack(ops(), weight);
    for (int64_t row = 0; row < weight.n; ++row) {
      for (int64_t i = 0; i < weight.k; ++i) {
        const BF16 stored = numbers[static_cast<size_t>(row * weight.k + i)];
        // The embed op multiplies by 1, which makes a signalling NaN quiet.
        const bool is_nan = (stored.bits & 0x7fff) > 0x7f80;
        const float read = rows.at(row, i);
        ASSERT_TRUE(is_nan ? std::isnan(read)
                           : std::bit_cast<uint32_t>(read) == uint32_t{stored.bits} << 16)
            << read << " for the bits " << stored.bits << " at " << row << ", " << i;
      }
    }
  }

  // Expects the same bits from both weights for 1 to 257 rows. Of `weight`, only the bytes that ops
  // may read (ReadBytes) are in memory.
  void ExpectSameProducts(PackedWeight weight, const PackedWeight& other) {
    Random random(6);
    Buffer read(ops().read_bytes(weight));
    std::memcpy(read.data(), weight.data, read.size());
    weight.data = read.data();
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 24, 25, 64, 257}) {
      const OwnedMatrix in(rows, weight.k, random);
      OwnedMatrix out[2] = {OwnedMatrix(rows, weight.n), OwnedMatrix(rows, weight.n)};
      for (int i = 0; i < 2; ++i) {
        OwnedStream stream(LinearWorkspace(rows, weight.k), ExecutorOf(3));
        ops().linear(*stream,
                     {.in = {{.x = in.view()}, i == 0 ? weight : other}, .out = out[i].view()});
        ASSERT_TRUE(stream->ok());
      }
      ExpectSameBits(out[0].view(), out[1].view(), std::to_string(rows) + " rows");
    }
  }

  // Packs and compresses the numbers. Expects the rows and products of the plain weight, and
  // returns the compressed one.
  PackedWeight ExpectLossless(const std::vector<BF16>& numbers, int64_t n, int64_t k) {
    const PackedWeight compressed = Pack(numbers, n, k, true);
    ExpectRows(compressed, numbers);
    ExpectSameProducts(compressed, Pack(numbers, n, k, false));
    return compressed;
  }

 private:
  std::deque<Buffer> buffers_;
};
LONGSTREAM_INSTANTIATE_OP_TEST(CompressTest);

TEST_P(CompressTest, EveryNumberThereIs) {
  // The weights are all 65536 bf16 numbers: first in order, then so that each panel has all upper
  // bytes.
  for (const int64_t factor : {1, 25173}) {
    const std::vector<BF16> numbers = Bits(256, 256, [&](int64_t row, int64_t i) {
      return static_cast<uint16_t>((row * 256 + i) * factor);
    });
    ExpectRows(Pack(numbers, 256, 256, true), numbers);
  }
}

// The sizes end within a panel, within a step or within a pair of steps. The number of exceptions
// ranges from none to all inputs, which are more than a panel can patch.
TEST_P(CompressTest, ReadsTheSameNumbersAndGivesTheSameProducts) {
  Random random(5);
  constexpr int64_t kN = 230;  // more panels than a single row computes side by side
  for (const int64_t k : {1, 2, 3, 4, 31, 33, 34, 255, 256, 300, 1026, 2047}) {
    for (const int64_t distance : {10000, 600, 150, 67, 36, 3, 1}) {
      SCOPED_TRACE(std::to_string(k) + " inputs, an exception in " + std::to_string(distance));
      const std::vector<BF16> numbers = BitsWithExceptions(kN, k, distance, random);
      const PackedWeight plain = Pack(numbers, kN, k, false);
      const PackedWeight compressed = Pack(numbers, kN, k, true);
      ExpectRows(plain, numbers);
      ExpectRows(compressed, numbers);
      const auto plain_bytes = static_cast<double>(ops().read_bytes(plain));
      const auto bytes = static_cast<double>(ops().read_bytes(compressed));
      EXPECT_LE(bytes, plain_bytes);
      if (traits().compresses_bf16) {
        if (k >= 256 && k % 4 == 0 && distance > k) {
          // The last of the eight panels is not compressed: zeros fill its missing rows, and their
          // upper byte is one more than the 16 that nibbles can name.
          EXPECT_LT(bytes, 0.79 * plain_bytes);
        }
        ExpectSameProducts(compressed, plain);
      } else {
        EXPECT_EQ(std::memcmp(compressed.data, plain.data, ops().packed_bytes(DType::kBF16, kN, k)),
                  0);
      }
    }
  }
}

// The index of the panels takes more than one cache line.
TEST_P(CompressTest, ManyPanels) {
  Random random(7);
  constexpr int64_t kN = 1100, kK = 72;
  const std::vector<BF16> numbers = BitsWithExceptions(kN, kK, 10000, random);
  ExpectLossless(numbers, kN, kK);
}

// Panels without patches, panels with patches and plain panels, several of each kind side by side.
TEST_P(CompressTest, PanelsOfEveryKind) {
  Random random(8);
  constexpr int64_t kN = 512, kK = 256;
  std::vector<BF16> numbers = BitsWithExceptions(kN, kK, 10000, random);
  for (int64_t row = 192; row < kN; ++row) {
    const bool plain = row < 352;
    for (int64_t i = 0; i < kK; ++i) {
      if (!plain && (row % 8 != 3 || i % 100 != 57 + row / 32 % 4)) continue;
      // These bits may have any upper byte; the number is finite.
      numbers[static_cast<size_t>(row * kK + i)] = {
          static_cast<uint16_t>(random.Integer(0, 0x3fff) + 0x8000 * random.Integer(0, 1))};
    }
  }
  ExpectLossless(numbers, kN, kK);
}

// A panel of 128 steps has at most 16 patches. A panel that needs 17 stays plain.
TEST_P(CompressTest, AsManyPatchesAsAPanelMayHave) {
  Random random(9);
  constexpr int64_t kN = 32, kK = 256;
  size_t bytes[2];
  for (const int64_t patches : {16, 17}) {
    std::vector<BF16> numbers = BitsWithExceptions(kN, kK, 10000, random);
    for (int64_t p = 0; p < patches; ++p) {  // patches in the first and in the last steps
      numbers[static_cast<size_t>(p * kK + (p % 2 == 0 ? p : kK - p))] = {0x0123};
    }
    bytes[patches - 16] = ops().read_bytes(ExpectLossless(numbers, kN, kK));
  }
  EXPECT_EQ(bytes[0] < bytes[1], traits().compresses_bf16);
}

TEST_P(CompressTest, ReadsThreeQuartersOfTheBytes) {
  Random random(4);
  OwnedWeight weight(512, 1024, DType::kBF16, random);
  const size_t plain = ops().packed_bytes(DType::kBF16, 512, 1024);
  const size_t read = ops().read_bytes(weight.Pack(ops()));
  if (traits().compresses_bf16) {
    EXPECT_LT(static_cast<double>(read), 0.78 * static_cast<double>(plain));
  } else {
    EXPECT_EQ(read, plain);
  }
  EXPECT_GE(static_cast<double>(read), 0.75 * 2 * 512 * 1024);
}

}  // namespace
}  // namespace longstream
