// The linear op on every library against the reference, with every optional argument. The first
// halves of MLPs are tested in linear_gated_test.cc, and equal bits in linear_bits_test.cc.
#include "kernels/ops/gemm/linear.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

struct Shape {
  int64_t rows;
  int64_t n;
  int64_t k;
};

// The optional arguments that a call gives.
struct Options {
  bool norm = false;
  bool centred = false;
  bool norm_bias = false;
  bool addend = false;
  bool gate = false;
  bool silu = false;
  bool bias = false;
  float scale = 1.0f;
  bool accumulate = false;
};

class LinearTest : public OpTest {
 protected:
  void Compare(const Shape& shape, DType type, const Options& options, Random& random) {
    const auto [rows, n, k] = shape;
    OwnedMatrix x(rows, k, random), addend(4, k, random);
    OwnedWeight weight(n, k, type, random);
    const std::vector<float> norm_weight = random.Normals(k), bias = random.Normals(n);
    std::vector<int32_t> addend_rows;
    for (int64_t r = 0; r < rows; ++r) {
      addend_rows.push_back(static_cast<int32_t>(random.Integer(0, 3)));
    }
    LinearRows in = {.x = x.view()};
    if (options.norm) in.norm = {norm_weight.data(), k, 1e-6f};
    in.norm.centred = options.centred;
    const std::vector<float> norm_bias = random.Normals(k);
    if (options.norm_bias) in.norm.bias = norm_bias.data();
    const OwnedMatrix gate(rows, k, random);
    if (options.gate) in.gate = gate.view();
    in.silu_gate = options.silu;
    if (options.addend) {
      in.addend = addend.view();
      in.addend_rows = addend_rows.data();
    }
    LinearArgs args;
    if (options.bias) args.bias = bias.data();
    args.scale = options.scale;
    args.accumulate = options.accumulate;
    const OwnedMatrix before =
        options.accumulate ? OwnedMatrix(rows, n, random) : OwnedMatrix(rows, n);

    OwnedMatrix expected(before);
    OwnedStream reference_stream(0), stream(LinearWorkspace(rows, k), ExecutorOf(2));
    args.in = {in, weight.Pack(reference())};
    args.out = expected.view();
    reference().linear(*reference_stream, args);
    args.in = {in, weight.Pack(ops())};
    double tolerance = 2 * DotTolerance(k);
    if (options.norm || options.gate) tolerance += 2 * RowRoundingTolerance(type, k);
    for (int64_t num_decode_rows : {int64_t{0}, rows}) {
      OwnedMatrix actual(before);
      args.num_decode_rows = num_decode_rows;
      args.out = actual.view();
      ops().linear(*stream, args);
      ASSERT_TRUE(stream->ok());
      ExpectNear(actual.view(), expected.view(), std::abs(options.scale) * tolerance,
                 (options.accumulate ? 4 : 2) * kEps,
                 std::string("linear ") + GetParam() + " " + NameOf(type) + " n " +
                     std::to_string(n) + " k " + std::to_string(k) + " decode rows " +
                     std::to_string(num_decode_rows) + " of " + std::to_string(rows) +
                     (options.accumulate ? ", added" : ""));
      actual.CheckGaps();
    }
  }

  // out = x W^T. With `decode` all rows are decode rows, else none is.
  static void Project(const OpTable& ops, Stream& stream, const OwnedMatrix& x,
                      const PackedWeight& weight, const OwnedMatrix& out, bool decode = false) {
    ops.linear(stream, {.in = {{.x = x.view()}, weight},
                        .num_decode_rows = decode ? x.rows() : 0,
                        .out = out.view()});
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(LinearTest);

TEST_P(LinearTest, MatchesTheReferenceAtOddSizes) {
  Random random(1);
  for (DType type : kWeightTypes) {
    for (int64_t n : kOddSizes) {
      for (int64_t k : kOddSizes) {
        for (int64_t rows : {1, 2, 5, 7}) Compare({rows, n, k}, type, {}, random);
      }
    }
  }
}

// The rows have more inputs than a block of inputs, and there are more rows than a block of rows
// has.
TEST_P(LinearTest, MatchesTheReferenceAcrossBlocks) {
  Random random(2);
  for (DType type : kWeightTypes) {
    Compare({1, 300, 1031}, type, {}, random);
    Compare({101, 99, 515}, type, {}, random);
    Compare({200, 33, 130}, type, {}, random);
  }
  for (DType type : {DType::kBF16, DType::kI8}) {
    Compare({2, 3, 9001}, type, {.norm = true, .centred = true, .norm_bias = true}, random);
    Compare({1, 3, 9001}, type, {.norm = true, .addend = true, .gate = true}, random);
  }
}

// A GPU's block computes one tile of outputs after the other if there are more tiles than blocks.
TEST_P(LinearTest, MatchesTheReferenceWithManyOutputs) {
  Random random(13);
  for (DType type : {DType::kBF16, DType::kI8}) {
    Compare({2, 4300, 130}, type, {.norm = true, .accumulate = true}, random);
    Compare({9, 2200, 300}, type, {.bias = true}, random);
    Compare({3, 1601, 100}, type, {}, random);  // so many tiles that none is cut into halves
  }
}

TEST_P(LinearTest, MatchesTheReferenceWithEveryOption) {
  Random random(3);
  for (DType type : kWeightTypes) {
    for (const Shape& shape : {Shape{1, 65, 129}, Shape{7, 33, 64}, Shape{9, 31, 7}}) {
      Compare(shape, type, {.norm = true}, random);
      Compare(shape, type, {.norm = true, .centred = true}, random);
      Compare(shape, type, {.norm = true, .centred = true, .norm_bias = true}, random);
      Compare(shape, type, {.gate = true}, random);
      Compare(shape, type, {.norm = true, .gate = true}, random);
      Compare(shape, type, {.addend = true}, random);
      Compare(shape, type, {.bias = true}, random);
      Compare(shape, type, {.scale = -0.37f}, random);
      Compare(shape, type, {.norm = true, .addend = true, .bias = true, .scale = 2.5f}, random);
    }
  }
}

TEST_P(LinearTest, AddsABranchAtOddSizes) {
  Random random(13);
  for (DType type : kWeightTypes) {
    for (int64_t n : kOddSizes) {
      for (int64_t k : {1, 31, 65, 600}) {
        for (int64_t rows : {1, 3, 8}) Compare({rows, n, k}, type, {.accumulate = true}, random);
      }
    }
  }
}

TEST_P(LinearTest, AddsABranchWithEveryOption) {
  Random random(14);
  for (DType type : kWeightTypes) {
    for (int64_t rows : {1, 7}) {
      for (int64_t k : {7, 129, 256}) {
        const Shape shape = {rows, 65, k};
        Compare(shape, type, {.norm = true, .accumulate = true}, random);
        Compare(shape, type, {.gate = true, .accumulate = true}, random);
        Compare(shape, type, {.gate = true, .silu = true, .accumulate = true}, random);
        Compare(shape, type, {.bias = true, .accumulate = true}, random);
        Compare(shape, type, {.scale = 0.25f, .accumulate = true}, random);
        Compare(shape, type,
                {.norm = true, .gate = true, .bias = true, .scale = -1.5f, .accumulate = true},
                random);
      }
    }
  }
}

// An infinity or a NaN in a row makes every output of that row infinite or NaN. It changes no
// output of another row.
TEST_P(LinearTest, WhatIsNoNumberSurfaces) {
  Random random(10);
  constexpr int64_t kRows = 3, kN = 40, kK = 70;
  for (DType type : {DType::kI8, DType::kI4}) {
    for (float poison : {INFINITY, -INFINITY, NAN}) {
      OwnedMatrix x(kRows, kK, random);
      x.set(1, 69, poison);
      OwnedWeight weight(kN, kK, type, random);
      const PackedWeight packed = weight.Pack(ops());
      OwnedStream stream(LinearWorkspace(kRows, kK));
      for (bool decode : {false, true}) {
        OwnedMatrix out(kRows, kN);
        Project(ops(), *stream, x, packed, out, decode);
        for (int64_t c = 0; c < kN; ++c) {
          EXPECT_TRUE(std::isfinite(out.at(0, c)) && std::isfinite(out.at(2, c)));
          EXPECT_FALSE(std::isfinite(out.at(1, c))) << NameOf(type) << " output " << c;
        }
      }
    }
  }
}

// A row of zeros, or of numbers too small for a scale, gives zeros. Rows of large numbers keep
// their scale.
TEST_P(LinearTest, RowsOfEveryMagnitude) {
  Random random(11);
  const std::vector<float> magnitudes = {0.0f, 1e-40f, 1e-32f, 1e-29f, 1e-20f, 1.0f, 1e20f, 1e30f};
  const auto rows = static_cast<int64_t>(magnitudes.size());
  constexpr int64_t kN = 20, kK = 50;
  for (DType type : {DType::kI8, DType::kI4}) {
    OwnedMatrix x(rows, kK, random), expected(rows, kN), actual(rows, kN);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < kK; ++i) {
        x.set(r, i, x.at(r, i) * magnitudes[static_cast<size_t>(r)]);
      }
    }
    OwnedWeight weight(kN, kK, type, random);
    OwnedStream reference_stream(0), stream(LinearWorkspace(rows, kK));
    Project(reference(), *reference_stream, x, weight.Pack(reference()), expected);
    Project(ops(), *stream, x, weight.Pack(ops()), actual);
    for (int64_t r = 0; r < rows; ++r) {
      const double tolerance = DotTolerance(kK) * magnitudes[static_cast<size_t>(r)];
      ExpectNear(actual.view().Rows(r, 1), expected.view().Rows(r, 1), tolerance, 2 * kEps,
                 std::string(NameOf(type)) + " row " + std::to_string(r));
    }
    EXPECT_EQ(actual.at(2, 0), 0.0f);
    EXPECT_NE(actual.at(3, 0), 0.0f);
  }
}

TEST_P(LinearTest, SumsOfTheLargestIntegers) {
  constexpr int64_t kN = 35;
  for (DType type : {DType::kI8, DType::kI4}) {
    for (int64_t period : {1, 2, 10000}) {
      for (int64_t k : {31, 64, 4097}) {
        OwnedWeight weight = FlatWeight(kN, k, type, period);
        const PackedWeight packed = weight.Pack(ops());
        for (int64_t rows : {1, 2, 7}) {
          const OwnedMatrix x = FlatRows(rows, k, period), expected(rows, kN), zeros(rows, kN);
          std::memset(zeros.view().data, 0,
                      static_cast<size_t>(rows * zeros.view().stride) * sizeof(float));
          OwnedStream reference_stream(0), stream(LinearWorkspace(rows, k), ExecutorOf(2));
          Project(reference(), *reference_stream, x, weight.Pack(reference()), expected);
          for (bool decode : {false, true}) {
            for (bool accumulate : {false, true}) {
              const OwnedMatrix actual(zeros);
              ops().linear(*stream, {.in = {{.x = x.view()}, packed},
                                     .accumulate = accumulate,
                                     .num_decode_rows = decode ? rows : 0,
                                     .out = actual.view()});
              ExpectNear(actual.view(), expected.view(), FlatTolerance(k), 0,
                         std::string(NameOf(type)) + " k " + std::to_string(k) + " period " +
                             std::to_string(period) + (decode ? " decode" : " prefill"));
            }
          }
        }
      }
    }
  }
}

TEST_P(LinearTest, NoRowsAreNoWork) {
  Random random(6);
  OwnedWeight weight(40, 9, DType::kF32, random);
  OwnedMatrix x(1, 9, random);
  OwnedStream stream(0, ExecutorOf(2));
  ops().linear(*stream, {.in = {{.x = x.view()}, weight.Pack(ops())}, .out = x.view().Rows(0, 0)});
  EXPECT_TRUE(stream->ok());
}

TEST_P(LinearTest, FailsWithoutWorkspaceAndThenDoesNothing) {
  Random random(7);
  OwnedWeight weight(3, 9, DType::kBF16, random), unrounded(3, 9, DType::kF32, random);
  OwnedMatrix x(2, 9, random), out(2, 3);
  OwnedStream stream(LinearWorkspace(2, 9) - 1);
  Project(ops(), *stream, x, weight.Pack(ops()), out);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));

  Project(ops(), *stream, x, unrounded.Pack(ops()), out);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));
}

// All libraries, the reference included, refuse the same calls.
TEST_P(LinearTest, RefusesWhatNoModelNeeds) {
  constexpr int64_t kRows = 2, kN = 3, kK = 4;
  Random random(15);
  const OwnedMatrix x(kRows, kK, random);
  OwnedWeight weight(kN, kK, DType::kBF16, random), up(kN, kK, DType::kBF16, random);
  OwnedWeight other_type(kN, kK, DType::kF32, random);
  OwnedWeight reader(5, kN, DType::kBF16, random), longer_reader(5, kN + 1, DType::kBF16, random);
  const Buffer memory(PreparedBytes(kRows, kN + 1));
  for (const OpTable* table : {&ops(), &reference()}) {
    // The status of a call after `change` has changed its arguments. Without a change, every
    // library serves the call. With `prepared_for`, the call prepares its rows for that weight.
    const auto status = [&](const std::function<void(LinearArgs&)>& change,
                            OwnedWeight* prepared_for = nullptr) {
      OwnedStream stream(LinearWorkspace(kRows, kK, kN));
      const OwnedMatrix out(kRows, kN);
      LinearArgs args = {.in = {{.x = x.view()}, weight.Pack(*table)}, .out = out.view()};
      change(args);
      if (prepared_for == nullptr) {
        table->linear(*stream, args);
      } else {
        LinearFor(prepared_for->Pack(*table), kRows, memory.data(), table->linear, *stream, args);
      }
      EXPECT_TRUE(stream->ok() || std::isnan(out.at(0, 0)));
      return stream->status;
    };
    const auto nothing = [](LinearArgs&) {};
    const auto activates = [](LinearArgs& args) { args.activation = Activation::kSilu; };
    const auto gates = [&](LinearArgs& args) {
      args.activation = Activation::kSilu;
      args.up = up.Pack(*table);
    };
    EXPECT_EQ(status(nothing), OpStatus::kOk);
    EXPECT_EQ(status(activates), OpStatus::kOk);
    EXPECT_EQ(status(gates), OpStatus::kOk);
    EXPECT_EQ(status(gates, &reader), OpStatus::kOk);

    const auto refuses = [&](const std::function<void(LinearArgs&)>& change,
                             OwnedWeight* prepared_for = nullptr) {
      return status(change, prepared_for) == OpStatus::kUnsupported;
    };
    EXPECT_TRUE(refuses([&](LinearArgs& args) { args.up = up.Pack(*table); }));
    EXPECT_TRUE(refuses([&](LinearArgs& args) { gates(args), args.up = other_type.Pack(*table); }));
    EXPECT_TRUE(refuses([&](LinearArgs& args) { activates(args), args.scale = 2.0f; }));
    EXPECT_TRUE(refuses([&](LinearArgs& args) { activates(args), args.accumulate = true; }));
    EXPECT_TRUE(refuses([&](LinearArgs& args) { args.accumulate = true; }, &reader));
    EXPECT_TRUE(refuses(nothing, &longer_reader));
  }
}

}  // namespace
}  // namespace longstream
