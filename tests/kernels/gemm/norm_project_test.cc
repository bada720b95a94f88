// Normalise-and-project on every instruction set against the reference, with every optional
// argument, and bit-equality of a row in any batch and with any number of threads.
#include "kernels/ops/gemm/norm_project.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

struct Shape {
  int64_t rows;
  int64_t n;
  int64_t k;
};

// Which optional arguments are given.
struct Options {
  bool norm = false;
  bool centred = false;
  bool norm_bias = false;
  bool addend = false;
  bool gate = false;
  bool bias = false;
  float scale = 1.0f;
};

class NormProjectTest : public OpTest {
 protected:
  static Norm NormOf(const std::vector<float>& weight) {
    return {weight.data(), static_cast<int64_t>(weight.size()), 1e-6f};
  }

  void Compare(const Shape& shape, DType type, const Options& options, Random& random) {
    const auto [rows, n, k] = shape;
    OwnedMatrix x(rows, k, random), addend(4, k, random);
    OwnedWeight weight(n, k, type, random);
    const std::vector<float> norm_weight = random.Normals(k), bias = random.Normals(n);
    std::vector<int32_t> addend_rows;
    for (int64_t r = 0; r < rows; ++r) {
      addend_rows.push_back(static_cast<int32_t>(random.Integer(0, 3)));
    }
    NormProjectArgs args;
    args.x = x.view();
    if (options.norm) args.norm = NormOf(norm_weight);
    args.norm.centred = options.centred;
    const std::vector<float> norm_bias = random.Normals(k);
    if (options.norm_bias) args.norm.bias = norm_bias.data();
    const OwnedMatrix gate(rows, k, random);
    if (options.gate) args.gate = gate.view();
    if (options.addend) {
      args.addend = addend.view();
      args.addend_rows = addend_rows.data();
    }
    if (options.bias) args.bias = bias.data();
    args.scale = options.scale;

    OwnedMatrix expected(rows, n);
    OwnedStream reference_stream(0), stream(NormProjectWorkspace(rows, k), ExecutorOf(2));
    args.out = expected.view();
    args.weight = weight.Pack(reference());
    reference().norm_project(*reference_stream, args);
    args.weight = weight.Pack(ops());
    double tolerance = 2 * DotTolerance(k);
    if (options.norm || options.gate) tolerance += 2 * RowRoundingTolerance(type, k);
    for (int64_t num_decode_rows : {int64_t{0}, rows}) {
      OwnedMatrix actual(rows, n);
      args.num_decode_rows = num_decode_rows;
      args.out = actual.view();
      ops().norm_project(*stream, args);
      ASSERT_TRUE(stream->ok());
      ExpectNear(actual.view(), expected.view(), std::abs(options.scale) * tolerance, 2 * kEps,
                 std::string("norm_project ") + GetParam() + " " + NameOf(type) + " n " +
                     std::to_string(n) + " k " + std::to_string(k) + " decode rows " +
                     std::to_string(num_decode_rows) + " of " + std::to_string(rows));
      actual.CheckGaps();
    }
  }

  // Projects rows [first, first + count) of `x` into those of `out`; with `decode` all are decode
  // rows, else none.
  void ProjectRows(Stream& stream, NormProjectArgs args, const OwnedMatrix& x,
                   const OwnedMatrix& out, int64_t first, int64_t count, bool decode) {
    args.x = x.view().Rows(first, count);
    args.out = out.view().Rows(first, count);
    args.num_decode_rows = decode ? count : 0;
    ops().norm_project(stream, args);
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(NormProjectTest);

TEST_P(NormProjectTest, MatchesTheReferenceAtOddSizes) {
  Random random(1);
  for (DType type : kWeightTypes) {
    for (int64_t n : kOddSizes) {
      for (int64_t k : kOddSizes) {
        for (int64_t rows : {1, 2, 5, 7}) Compare({rows, n, k}, type, {}, random);
      }
    }
  }
}

// Longer than a block of inputs, more rows than a block of rows.
TEST_P(NormProjectTest, MatchesTheReferenceAcrossBlocks) {
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

TEST_P(NormProjectTest, MatchesTheReferenceWithEveryOption) {
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

TEST_P(NormProjectTest, ARowHasTheSameBitsInAnyBatch) {
  Random random(4);
  constexpr int64_t kRows = 512, kN = 161, kK = 777;
  for (DType type : kWeightTypes) {
    OwnedMatrix x(kRows, kK, random);
    OwnedWeight weight(kN, kK, type, random);
    const std::vector<float> norm_weight = random.Normals(kK);
    NormProjectArgs args;
    args.norm = NormOf(norm_weight);
    args.weight = weight.Pack(ops());

    OwnedStream stream(NormProjectWorkspace(kRows, kK), ExecutorOf(3));
    for (bool decode : {false, true}) {
      // Steps decode fewer. Interpreted kernels take 64 rows at once: two such blocks and a rest.
      const int64_t rows = decode || traits().interpreted ? 130 : kRows;
      OwnedMatrix whole(rows, kN);
      ProjectRows(*stream, args, x, whole, 0, rows, decode);
      for (int64_t batch : {1, 2, 3, 5, 7, 13, 100}) {
        // EveryNumberOfRowsGivesTheSameBits has the small ones.
        if (traits().interpreted && IsQuantised(type) && batch < 13) continue;
        OwnedMatrix parts(rows, kN);
        for (int64_t first = 0; first < rows; first += batch) {
          ProjectRows(*stream, args, x, parts, first, std::min(batch, rows - first), decode);
        }
        ExpectSameBits(parts.view(), whole.view(),
                       std::string(NameOf(type)) + (decode ? " decode" : " prefill") +
                           " rows in batches of " + std::to_string(batch));
      }
    }
  }
}

// The decode rows and the prefill rows of a step do not see each other. The inputs are long enough
// to be shared out.
TEST_P(NormProjectTest, DecodeAndPrefillRowsMix) {
  Random random(8);
  constexpr int64_t kRows = 75, kN = 50, kK = 2100;
  for (DType type : kWeightTypes) {
    OwnedMatrix x(kRows, kK, random), prefill(kRows, kN), decode(kRows, kN), expected(kRows, kN);
    OwnedWeight weight(kN, kK, type, random);
    const std::vector<float> bias = random.Normals(kN);
    NormProjectArgs args;
    args.weight = weight.Pack(ops());
    args.bias = bias.data();
    OwnedStream stream(NormProjectWorkspace(kRows, kK), ExecutorOf(2));
    ProjectRows(*stream, args, x, prefill, 0, kRows, false);
    ProjectRows(*stream, args, x, decode, 0, kRows, true);
    for (int64_t num_decode_rows : {1, 9, 17, 40, 66, 74}) {
      OwnedMatrix mixed(kRows, kN);
      args.x = x.view();
      args.out = mixed.view();
      args.num_decode_rows = num_decode_rows;
      ops().norm_project(*stream, args);
      for (int64_t r = 0; r < kRows; ++r) {
        const OwnedMatrix& from = r < num_decode_rows ? decode : prefill;
        for (int64_t c = 0; c < kN; ++c) expected.set(r, c, from.at(r, c));
      }
      ExpectSameBits(
          mixed.view(), expected.view(),
          std::string(NameOf(type)) + " with " + std::to_string(num_decode_rows) + " decode rows");
      mixed.CheckGaps();
    }
  }
}

// Decode rows in every number of them that a launch or a tile may have.
TEST_P(NormProjectTest, EveryNumberOfRowsGivesTheSameBits) {
  Random random(9);
  constexpr int64_t kRows = 70, kN = 33, kK = 300;
  for (DType type : {DType::kBF16, DType::kI8, DType::kI4}) {
    OwnedMatrix x(kRows, kK, random), whole(kRows, kN);
    OwnedWeight weight(kN, kK, type, random);
    NormProjectArgs args;
    args.weight = weight.Pack(ops());
    OwnedStream stream(NormProjectWorkspace(kRows, kK), ExecutorOf(2));
    ProjectRows(*stream, args, x, whole, 0, kRows, true);
    for (int64_t rows = 1; rows < kRows; ++rows) {
      OwnedMatrix part(rows, kN);
      ProjectRows(*stream, args, x, part, 0, rows, true);
      ExpectSameBits(part.view(), whole.view().Rows(0, rows),
                     std::string(NameOf(type)) + " with " + std::to_string(rows) + " rows");
    }
  }
}

// Decode rows by themselves, a few and many of them, with all that is done to a row before the
// product: a GPU does it in one kernel or in two.
TEST_P(NormProjectTest, AFewRowsHaveTheBitsOfMany) {
  Random random(12);
  constexpr int64_t kRows = 9, kN = 33;
  for (DType type : kWeightTypes) {
    for (int64_t k : {5, 300, 301, 1024, 5300, 9001}) {
      const OwnedMatrix x(kRows, k, random), addend(3, k, random), gate(kRows, k, random);
      const std::vector<float> norm_weight = random.Normals(k), norm_bias = random.Normals(k);
      const std::vector<int32_t> addend_rows = {2, 1, 0, 2, 0, 1, 1, 0, 2};
      OwnedWeight weight(kN, k, type, random);
      OwnedStream stream(NormProjectWorkspace(kRows, k), ExecutorOf(2));
      for (bool everything : {false, true}) {
        NormProjectArgs args;
        args.norm = NormOf(norm_weight);
        args.weight = weight.Pack(ops());
        const auto project = [&](int64_t first, int64_t count, const OwnedMatrix& out) {
          args.x = x.view().Rows(first, count);
          if (everything) {
            args.norm.centred = true;
            args.norm.bias = norm_bias.data();
            args.addend = addend.view();
            args.addend_rows = addend_rows.data() + first;
            args.gate = gate.view().Rows(first, count);
          }
          args.num_decode_rows = count;
          args.out = out.view().Rows(first, count);
          ops().norm_project(*stream, args);
        };
        OwnedMatrix whole(kRows, kN);
        project(0, kRows, whole);
        for (int64_t batch : {1, 2, 3, 4, 5}) {
          OwnedMatrix parts(kRows, kN);
          for (int64_t first = 0; first < kRows; first += batch) {
            project(first, std::min(batch, kRows - first), parts);
          }
          ExpectSameBits(parts.view(), whole.view(),
                         std::string(NameOf(type)) + " k " + std::to_string(k) +
                             (everything ? " everything" : "") + " in batches of " +
                             std::to_string(batch));
        }
      }
    }
  }
}

// A row that is not finite, or a weight, must be seen in what it touches and nowhere else.
TEST_P(NormProjectTest, WhatIsNoNumberSurfaces) {
  Random random(10);
  constexpr int64_t kRows = 3, kN = 40, kK = 70;
  for (DType type : {DType::kI8, DType::kI4}) {
    for (float poison : {INFINITY, -INFINITY, NAN}) {
      OwnedMatrix x(kRows, kK, random);
      x.set(1, 69, poison);
      OwnedWeight weight(kN, kK, type, random);
      NormProjectArgs args;
      args.weight = weight.Pack(ops());
      OwnedStream stream(NormProjectWorkspace(kRows, kK));
      for (bool decode : {false, true}) {
        OwnedMatrix out(kRows, kN);
        ProjectRows(*stream, args, x, out, 0, kRows, decode);
        for (int64_t c = 0; c < kN; ++c) {
          EXPECT_TRUE(std::isfinite(out.at(0, c)) && std::isfinite(out.at(2, c)));
          EXPECT_FALSE(std::isfinite(out.at(1, c))) << NameOf(type) << " output " << c;
        }
      }
    }
  }
}

// Rows of zeros, and of numbers too small for a scale, are zeros; large ones keep their scale.
TEST_P(NormProjectTest, RowsOfEveryMagnitude) {
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
    NormProjectArgs args;
    args.x = x.view();
    args.weight = weight.Pack(reference());
    args.out = expected.view();
    OwnedStream reference_stream(0), stream(NormProjectWorkspace(rows, kK));
    reference().norm_project(*reference_stream, args);
    args.weight = weight.Pack(ops());
    args.out = actual.view();
    ops().norm_project(*stream, args);
    for (int64_t r = 0; r < rows; ++r) {
      const double tolerance = DotTolerance(kK) * magnitudes[static_cast<size_t>(r)];
      ExpectNear(actual.view().Rows(r, 1), expected.view().Rows(r, 1), tolerance, 2 * kEps,
                 std::string(NameOf(type)) + " row " + std::to_string(r));
    }
    EXPECT_EQ(actual.at(2, 0), 0.0f);
    EXPECT_NE(actual.at(3, 0), 0.0f);
  }
}

TEST_P(NormProjectTest, SumsOfTheLargestIntegers) {
  constexpr int64_t kN = 35;
  for (DType type : {DType::kI8, DType::kI4}) {
    for (int64_t period : {1, 2, 10000}) {
      for (int64_t k : {31, 64, 4097}) {
        OwnedWeight weight = FlatWeight(kN, k, type, period);
        for (int64_t rows : {1, 2, 7}) {
          const OwnedMatrix x = FlatRows(rows, k, period), expected(rows, kN);
          NormProjectArgs args;
          args.weight = weight.Pack(reference());
          args.x = x.view();
          args.out = expected.view();
          OwnedStream reference_stream(0), stream(NormProjectWorkspace(rows, k), ExecutorOf(2));
          reference().norm_project(*reference_stream, args);
          args.weight = weight.Pack(ops());
          for (bool decode : {false, true}) {
            const OwnedMatrix actual(rows, kN);
            ProjectRows(*stream, args, x, actual, 0, rows, decode);
            ExpectNear(actual.view(), expected.view(), FlatTolerance(k), 0,
                       std::string(NameOf(type)) + " k " + std::to_string(k) + " period " +
                           std::to_string(period) + (decode ? " decode" : " prefill"));
          }
        }
      }
    }
  }
}

TEST_P(NormProjectTest, TheThreadsDoNotMatter) {
  Random random(5);
  constexpr int64_t kN = 700, kK = 300;
  for (DType type : {DType::kBF16, DType::kI8, DType::kI4}) {
    OwnedWeight weight(kN, kK, type, random);
    for (int64_t rows : {1, 9, 130}) {
      OwnedMatrix x(rows, kK, random), expected(rows, kN);
      NormProjectArgs args;
      args.x = x.view();
      args.weight = weight.Pack(ops());
      args.out = expected.view();
      OwnedStream serial(NormProjectWorkspace(rows, kK));
      ops().norm_project(*serial, args);
      for (uint32_t threads : ThreadCounts()) {
        OwnedMatrix actual(rows, kN);
        args.out = actual.view();
        OwnedStream stream(NormProjectWorkspace(rows, kK), ExecutorOf(threads));
        ops().norm_project(*stream, args);
        ExpectSameBits(actual.view(), expected.view(),
                       std::string(NameOf(type)) + " " + std::to_string(threads) + " threads");
      }
    }
  }
}

TEST_P(NormProjectTest, NoRowsAreNoWork) {
  Random random(6);
  OwnedWeight weight(40, 9, DType::kF32, random);
  OwnedMatrix x(1, 9, random);
  NormProjectArgs args;
  args.x = x.view();
  args.weight = weight.Pack(ops());
  args.out = x.view().Rows(0, 0);
  OwnedStream stream(0, ExecutorOf(2));
  ops().norm_project(*stream, args);
  EXPECT_TRUE(stream->ok());
}

TEST_P(NormProjectTest, FailsWithoutWorkspaceAndThenDoesNothing) {
  Random random(7);
  OwnedWeight weight(3, 9, DType::kBF16, random);
  OwnedMatrix x(2, 9, random), out(2, 3);
  NormProjectArgs args;
  args.x = x.view();
  args.weight = weight.Pack(ops());
  args.out = out.view();
  OwnedStream stream(NormProjectWorkspace(2, 9) - 1);
  ops().norm_project(*stream, args);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));

  args.weight = OwnedWeight(3, 9, DType::kF32, random).Pack(ops());
  ops().norm_project(*stream, args);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));
}

}  // namespace
}  // namespace longstream
