// The linear op on every library: a row has the same bits in any batch, with any number of threads,
// and if an earlier call has prepared it.
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/ops/gemm/linear.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class LinearBitsTest : public OpTest {
 protected:
  static Norm NormOf(const std::vector<float>& weight) {
    return {weight.data(), static_cast<int64_t>(weight.size()), 1e-6f};
  }

  // Projects rows [first, first + count) of `x` into the same rows of `out`. With `decode` all of
  // them are decode rows, else none is. `args` holds the other arguments.
  void ProjectRows(Stream& stream, LinearArgs args, const OwnedMatrix& x, const OwnedMatrix& out,
                   int64_t first, int64_t count, bool decode) {
    LinearRows in = args.in.rows();
    in.x = x.view().Rows(first, count);
    if (in.gate.data != nullptr) in.gate = in.gate.Rows(first, count);
    if (in.addend.data != nullptr) in.addend_rows += first;
    args.in = {in, args.in.weight()};
    args.out = out.view().Rows(first, count);
    args.num_decode_rows = decode ? count : 0;
    ops().linear(stream, args);
  }

  // Computes all rows in one call and in calls of one row each, and expects the same bits. Rows [0,
  // num_decode_rows) are decode rows, the others are prefill rows. Each output begins as a copy of
  // `before`.
  void CompareSingleRows(LinearArgs args, const OwnedMatrix& x, const OwnedMatrix& before) {
    const int64_t rows = x.rows();
    const PackedWeight& weight = args.in.weight();
    OwnedStream stream(LinearWorkspace(rows, weight.k, args.up.n), ExecutorOf(3));
    for (int64_t num_decode_rows : {int64_t{0}, int64_t{20}, rows}) {
      OwnedMatrix whole(before), parts(before);
      LinearRows in = args.in.rows();
      in.x = x.view();
      args.in = {in, weight};
      args.out = whole.view();
      args.num_decode_rows = num_decode_rows;
      ops().linear(*stream, args);
      for (int64_t r = 0; r < rows; ++r) {
        ProjectRows(*stream, args, x, parts, r, 1, r < num_decode_rows);
      }
      ASSERT_TRUE(stream->ok());
      ExpectSameBits(parts.view(), whole.view(),
                     std::string(NameOf(weight.type)) + " with " + std::to_string(num_decode_rows) +
                         " decode rows");
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(LinearBitsTest);

TEST_P(LinearBitsTest, ARowHasTheSameBitsInAnyBatch) {
  Random random(4);
  constexpr int64_t kRows = 512, kN = 161, kK = 777;
  for (DType type : kWeightTypes) {
    OwnedMatrix x(kRows, kK, random);
    OwnedWeight weight(kN, kK, type, random);
    const std::vector<float> norm_weight = random.Normals(kK);
    LinearArgs args;
    args.in = {{.x = {}, .norm = NormOf(norm_weight)}, weight.Pack(ops())};
    OwnedStream stream(LinearWorkspace(kRows, kK), ExecutorOf(3));
    for (bool decode : {false, true}) {
      // 130 rows are more decode rows than a step has. Interpreted kernels compute 64 rows at once,
      // so 130 rows are two such blocks and a rest.
      const int64_t rows = decode || traits().interpreted ? 130 : kRows;
      OwnedMatrix whole(rows, kN);
      ProjectRows(*stream, args, x, whole, 0, rows, decode);
      for (int64_t batch : {1, 2, 3, 5, 7, 13, 100}) {
        // The test EveryNumberOfRowsGivesTheSameBits covers the small batches.
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

TEST_P(LinearBitsTest, ARowOfABranchHasTheSameBitsInAnyBatch) {
  Random random(3);
  constexpr int64_t kRows = 130, kN = 97, kK = 301;
  for (DType type : kWeightTypes) {
    OwnedMatrix x(kRows, kK, random), gate(kRows, kK, random), before(kRows, kN, random);
    OwnedWeight weight(kN, kK, type, random);
    const std::vector<float> norm_weight = random.Normals(kK);
    LinearArgs args;
    args.in = {{.x = {}, .norm = NormOf(norm_weight), .gate = gate.view()}, weight.Pack(ops())};
    args.accumulate = true;
    CompareSingleRows(args, x, before);
  }
}

TEST_P(LinearBitsTest, AGatedRowHasTheSameBitsInAnyBatch) {
  Random random(2);
  constexpr int64_t kRows = 130, kN = 97, kK = 301;
  for (DType type : kWeightTypes) {
    OwnedMatrix x(kRows, kK, random);
    OwnedWeight weight(kN, kK, type, random), up(kN, kK, type, random);
    const std::vector<float> norm_weight = random.Normals(kK);
    LinearArgs args;
    args.in = {{.x = {}, .norm = NormOf(norm_weight)}, weight.Pack(ops())};
    args.activation = Activation::kSilu;
    args.up = up.Pack(ops());
    CompareSingleRows(args, x, OwnedMatrix(kRows, kN));
  }
}

// The decode rows and the prefill rows of a call do not change each other's outputs. The inputs are
// so long that the warps of a GPU share the sum of an output.
TEST_P(LinearBitsTest, DecodeAndPrefillRowsMix) {
  Random random(8);
  constexpr int64_t kRows = 75, kN = 50, kK = 2100;
  for (DType type : kWeightTypes) {
    OwnedMatrix x(kRows, kK, random), prefill(kRows, kN), decode(kRows, kN), expected(kRows, kN);
    OwnedWeight weight(kN, kK, type, random);
    const std::vector<float> bias = random.Normals(kN);
    LinearArgs args;
    args.in = {{.x = x.view()}, weight.Pack(ops())};
    args.bias = bias.data();
    OwnedStream stream(LinearWorkspace(kRows, kK), ExecutorOf(2));
    ProjectRows(*stream, args, x, prefill, 0, kRows, false);
    ProjectRows(*stream, args, x, decode, 0, kRows, true);
    for (int64_t num_decode_rows : {1, 9, 17, 40, 66, 74}) {
      OwnedMatrix mixed(kRows, kN);
      args.out = mixed.view();
      args.num_decode_rows = num_decode_rows;
      ops().linear(*stream, args);
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

// Compares rows of products with many outputs and rows to products of one row. A GPU divides such
// products into tiles, whose size depends on both numbers. The numbers here give each size.
class ManyRowsTest : public LinearBitsTest {
 protected:
  void CompareTiles(int64_t k) {
    struct Size {
      int64_t n, rows;
    };
    Random random(14);
    for (const Size& size : {Size{100, 40}, {4200, 20}, {1200, 130}, {2100, 130}, {4300, 65}}) {
      for (const bool gated : {false, true}) {
        const int64_t n = gated ? size.n / 2 - 1 : size.n - 3;
        OwnedMatrix x(size.rows, k, random), whole(size.rows, n);
        OwnedWeight weight(n, k, DType::kBF16, random), up(n, k, DType::kBF16, random);
        LinearArgs args;
        args.in = {{.x = {}}, weight.Pack(ops())};
        if (gated) {
          args.activation = Activation::kSilu;
          args.up = up.Pack(ops());
        }
        OwnedStream stream(LinearWorkspace(size.rows, k, n), ExecutorOf(2));
        ProjectRows(*stream, args, x, whole, 0, size.rows, /*decode=*/true);
        for (const int64_t row : {int64_t{0}, size.rows / 2, size.rows - 1}) {
          OwnedMatrix single(size.rows, n);
          ProjectRows(*stream, args, x, single, row, 1, /*decode=*/true);
          ExpectSameBits(single.view().Rows(row, 1), whole.view().Rows(row, 1),
                         std::to_string(n) + " outputs, row " + std::to_string(row));
        }
        whole.CheckGaps();
      }
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(ManyRowsTest);

TEST_P(ManyRowsTest, HaveTheBitsOfARow) { CompareTiles(140); }

// Here sums have eight shares, and some shares have several pieces. Only a GPU divides sums so, and
// the harness would take a minute.
TEST_P(ManyRowsTest, OfManyInputsHaveTheBitsOfARow) {
  if (traits().cuts_sums_off && !traits().interpreted) CompareTiles(1100);
}

// Tests every number of decode rows that one launch or one tile may have.
TEST_P(LinearBitsTest, EveryNumberOfRowsGivesTheSameBits) {
  Random random(9);
  constexpr int64_t kRows = 70, kN = 33, kK = 300;
  for (DType type : {DType::kBF16, DType::kI8, DType::kI4}) {
    OwnedMatrix x(kRows, kK, random), whole(kRows, kN);
    OwnedWeight weight(kN, kK, type, random);
    LinearArgs args;
    args.in = {{.x = {}}, weight.Pack(ops())};
    OwnedStream stream(LinearWorkspace(kRows, kK), ExecutorOf(2));
    ProjectRows(*stream, args, x, whole, 0, kRows, true);
    for (int64_t rows = 1; rows < kRows; ++rows) {
      OwnedMatrix part(rows, kN);
      ProjectRows(*stream, args, x, part, 0, rows, true);
      ExpectSameBits(part.view(), whole.view().Rows(0, rows),
                     std::string(NameOf(type)) + " with " + std::to_string(rows) + " rows");
    }
  }
}

// Tiny inputs have subnormal products. A unit that takes them as zeros may compute many rows, and
// vectors that do not may compute one.
TEST_P(LinearBitsTest, SubnormalProductsHaveTheSameBitsInAnyBatch) {
  Random random(15);
  constexpr int64_t kRows = 37, kN = 70;
  for (int64_t k : {31, 64, 301}) {
    for (float scale : {1e-36f, 1e-37f, 1e-38f}) {
      OwnedMatrix x(kRows, k, random);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t i = 0; i < k; ++i) x.set(r, i, scale * x.at(r, i));
      }
      OwnedWeight weight(kN, k, DType::kBF16, random);
      LinearArgs args;
      args.in = {{.x = {}}, weight.Pack(ops())};
      CompareSingleRows(args, x, OwnedMatrix(kRows, kN));
    }
  }
}

// A few decode rows must have the bits that they have among many, with everything that may come
// before the product. A GPU computes few rows in one kernel and many rows in two.
TEST_P(LinearBitsTest, AFewRowsHaveTheBitsOfMany) {
  Random random(12);
  constexpr int64_t kRows = 9, kN = 33;
  for (DType type : kWeightTypes) {
    for (int64_t k : {5, 300, 301, 1024, 5300, 9001}) {
      const OwnedMatrix x(kRows, k, random), addend(3, k, random), gate(kRows, k, random);
      const std::vector<float> norm_weight = random.Normals(k), norm_bias = random.Normals(k);
      const std::vector<int32_t> addend_rows = {2, 1, 0, 2, 0, 1, 1, 0, 2};
      OwnedWeight weight(kN, k, type, random);
      OwnedStream stream(LinearWorkspace(kRows, k), ExecutorOf(2));
      for (bool everything : {false, true}) {
        LinearRows in = {.x = {}, .norm = NormOf(norm_weight)};
        if (everything) {
          in.norm.centred = true;
          in.norm.bias = norm_bias.data();
          in.addend = addend.view();
          in.addend_rows = addend_rows.data();
          in.gate = gate.view();
        }
        LinearArgs args;
        args.in = {in, weight.Pack(ops())};
        OwnedMatrix whole(kRows, kN);
        ProjectRows(*stream, args, x, whole, 0, kRows, /*decode=*/true);
        for (int64_t batch : {1, 2, 3, 4, 5}) {
          OwnedMatrix parts(kRows, kN);
          for (int64_t first = 0; first < kRows; first += batch) {
            ProjectRows(*stream, args, x, parts, first, std::min(batch, kRows - first),
                        /*decode=*/true);
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

TEST_P(LinearBitsTest, TheThreadsDoNotMatter) {
  Random random(5);
  constexpr int64_t kN = 700, kK = 300;
  for (DType type : {DType::kBF16, DType::kI8, DType::kI4}) {
    OwnedWeight weight(kN, kK, type, random);
    for (int64_t rows : {1, 9, 130}) {
      OwnedMatrix x(rows, kK, random), expected(rows, kN);
      LinearArgs args;
      args.in = {{.x = x.view()}, weight.Pack(ops())};
      args.out = expected.view();
      OwnedStream serial(LinearWorkspace(rows, kK));
      ops().linear(*serial, args);
      for (uint32_t threads : ThreadCounts()) {
        OwnedMatrix actual(rows, kN);
        args.out = actual.view();
        OwnedStream stream(LinearWorkspace(rows, kK), ExecutorOf(threads));
        ops().linear(*stream, args);
        ExpectSameBits(actual.view(), expected.view(),
                       std::string(NameOf(type)) + " " + std::to_string(threads) + " threads");
      }
    }
  }
}

// Prepared rows cannot be read as f32, cannot meet another weight, and cannot be made without a
// call.
static_assert(!std::is_convertible_v<LinearInput, Matrix>);
static_assert(!std::is_convertible_v<LinearInput, LinearOutput>);
static_assert(!std::is_constructible_v<LinearInput, LinearInput, PackedWeight>);
static_assert(!std::is_constructible_v<LinearInput, LinearOutput>);
static_assert(!std::is_constructible_v<LinearOutput, Matrix, PackedWeight>);

// A product of prepared rows has the same bits as a product of the same rows in f32.
TEST_P(LinearBitsTest, LeavesRowsForTheirReader) {
  Random random(10);
  constexpr int64_t kD = 33, kK = 65;
  for (DType type : kWeightTypes) {
    for (int64_t n : {1, 15, 16, 17, 31, 33, 64, 97, 128, 300}) {
      OwnedWeight weight(n, kK, DType::kBF16, random), up(n, kK, DType::kBF16, random);
      OwnedWeight down(kD, n, type, random);
      const PackedWeight reader = down.Pack(ops());
      for (int64_t rows : {1, 3, 5, 16, 257}) {
        const OwnedMatrix x(rows, kK, random);
        OwnedStream stream(std::max(LinearWorkspace(rows, kK, n), LinearWorkspace(rows, n)),
                           ExecutorOf(2));
        // Laid out as prepared rows are: a library may sum in another order for another layout.
        const Buffer plain_memory(PreparedBytes(rows, n));
        const Matrix plain = {plain_memory.data(), DType::kF32, rows, n, n};
        const Buffer memory(PreparedBytes(rows, n));
        LinearArgs args;
        args.in = {{.x = x.view()}, weight.Pack(ops())};
        if (rows != 5) args.activation = Activation::kSilu;
        if (rows > 5 || rows == 1) args.up = up.Pack(ops());
        args.out = plain;
        ops().linear(*stream, args);
        const LinearInput prepared =
            LinearFor(reader, rows, memory.data(), ops().linear, *stream, args);

        Random again(3), same(3);
        const OwnedMatrix expected(rows, kD), actual(rows, kD);
        const OwnedMatrix sum(rows, kD, again), other_sum(rows, kD, same);
        const auto project = [&](const LinearInput& in, const Matrix& out, const Matrix& residual) {
          ops().linear(*stream, {.in = in, .out = out});
          ops().linear(*stream, {.in = in, .accumulate = true, .out = residual});
        };
        project({{.x = plain}, reader}, expected.view(), sum.view());
        project(prepared, actual.view(), other_sum.view());
        ASSERT_TRUE(stream->ok());
        const std::string what =
            std::string(NameOf(type)) + " n " + std::to_string(n) + " rows " + std::to_string(rows);
        ExpectSameBits(actual.view(), expected.view(), what);
        ExpectSameBits(other_sum.view(), sum.view(), what + ", added");
      }
    }
  }
}

}  // namespace
}  // namespace longstream
