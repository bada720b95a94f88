// Rotation tables on every instruction set. They are compared with the reference, and with long
// double at positions where f32 angles would fail.
#include "kernels/ops/elementwise/rope_table.h"

#include <cmath>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

std::vector<double> InverseFrequencies(int64_t head_dim, double theta) {
  std::vector<double> inv_freq;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    inv_freq.push_back(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  return inv_freq;
}

class RopeTableTest : public OpTest {};
LONGSTREAM_INSTANTIATE_OP_TEST(RopeTableTest);

TEST_P(RopeTableTest, MatchesTheReference) {
  const std::vector<int64_t> positions = {0, 1, 17, 511, 512, 513, 2047, 2048, 999999};
  const int64_t rows = static_cast<int64_t>(positions.size());
  for (int64_t head_dim : {2, 8, 24, 80, 128}) {
    const std::vector<double> inv_freq = InverseFrequencies(head_dim, 1e4);
    RopeTableArgs args;
    args.positions = positions.data();
    args.num_rows = rows;
    args.inv_freq = inv_freq.data();
    args.head_dim = static_cast<int32_t>(head_dim);
    const auto compare = [&](const char* what) {
      Buffer expected(static_cast<size_t>(rows * head_dim) * sizeof(float)), actual(expected);
      OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
      args.table = reinterpret_cast<float*>(expected.data());
      reference().rope_table(*reference_stream, args);
      args.table = reinterpret_cast<float*>(actual.data());
      ops().rope_table(*stream, args);
      // The library and the reference call the same f64 functions and round once, so the bits are
      // equal.
      ExpectSameBits({actual.data(), DType::kF32, rows, head_dim, head_dim},
                     {expected.data(), DType::kF32, rows, head_dim, head_dim}, what);
    };
    compare("plain");
    args.position_scale = 0.0;
    args.position_offset = 256.0;
    compare("far query of ReRoPE");
    args.position_scale = 1.0 / 16;
    args.position_offset = 256.0 - 256.0 / 16;
    compare("far query of Leaky ReRoPE");
    args.modulo = 512;
    args.magnitude = 1.25f;
    compare("local position, magnitude");
  }
}

// Partial rotary embedding: the magnitude applies only to pairs that rotate.
TEST_P(RopeTableTest, APairWithoutAFrequencyStaysAsItIs) {
  constexpr int64_t kDim = 20;
  std::vector<double> inv_freq = InverseFrequencies(kDim, 1e4);
  for (size_t i : {1, 7, 8, 9}) inv_freq[i] = 0.0;
  const std::vector<int64_t> positions = {0, 5, 123456};
  RopeTableArgs args;
  args.positions = positions.data();
  args.num_rows = 3;
  args.inv_freq = inv_freq.data();
  args.head_dim = kDim;
  args.magnitude = 1.25f;
  std::vector<float> out(3 * kDim);
  args.table = out.data();
  OwnedStream stream(0);
  ops().rope_table(*stream, args);
  std::vector<float> expected(3 * kDim);
  args.table = expected.data();
  OwnedStream reference_stream(0);
  reference().rope_table(*reference_stream, args);
  EXPECT_EQ(out, expected);
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < kDim / 2; ++i) {
      if (inv_freq[i] == 0.0) {
        EXPECT_EQ(out[t * kDim + i], 1.0f);
        EXPECT_EQ(out[t * kDim + kDim / 2 + i], 0.0f);
      } else {
        const double angle = static_cast<double>(positions[t]) * inv_freq[i];
        EXPECT_NEAR(out[t * kDim + i], 1.25 * std::cos(angle), 2e-7);
        EXPECT_NEAR(out[t * kDim + kDim / 2 + i], 1.25 * std::sin(angle), 2e-7);
      }
    }
  }
}

TEST_P(RopeTableTest, AnglesOfLongPositionsAreExact) {
  constexpr int64_t kDim = 16;
  const std::vector<double> inv_freq = InverseFrequencies(kDim, 1e6);
  const std::vector<int64_t> positions = {123456789, 10000000, 3};
  OwnedMatrix table(3, kDim);
  std::vector<float> out(3 * kDim);
  RopeTableArgs args;
  args.positions = positions.data();
  args.num_rows = 3;
  args.inv_freq = inv_freq.data();
  args.head_dim = kDim;
  args.table = out.data();
  OwnedStream stream(0);
  ops().rope_table(*stream, args);
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < kDim / 2; ++i) {
      const long double angle =
          static_cast<long double>(positions[t]) * static_cast<long double>(inv_freq[i]);
      // Rounding the angle to f64 costs 1.2e8 * 2^-53 = 1.4e-8. Rounding the result to f32 costs
      // 2^-25.
      EXPECT_NEAR(out[t * kDim + i], std::cos(angle), 5e-8);
      EXPECT_NEAR(out[t * kDim + kDim / 2 + i], std::sin(angle), 5e-8);
    }
  }
}

}  // namespace
}  // namespace longstream
