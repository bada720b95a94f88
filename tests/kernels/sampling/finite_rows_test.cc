// Tests of the check for finite rows. Rows have only finite numbers, or a NaN or an infinity at any
// place.
#include "kernels/ops/sampling/finite_rows.h"

#include <cmath>
#include <limits>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class FiniteRowsTest : public OpTest {
 protected:
  // Runs the op on a matrix [rows, cols], whose row r begins at values[r * stride]. Expects the
  // library and the reference to give the same flags, and returns these flags.
  std::vector<int32_t> Run(std::vector<float>& values, int64_t rows, int64_t cols, int64_t stride) {
    const Matrix matrix{values.data(), DType::kF32, rows, cols, stride};
    std::vector<int32_t> expected(static_cast<size_t>(rows), -1), actual(expected);
    OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
    reference().finite_rows(*reference_stream, {.values = matrix, .finite = expected.data()});
    ops().finite_rows(*stream, {.values = matrix, .finite = actual.data()});
    EXPECT_EQ(actual, expected);
    return actual;
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(FiniteRowsTest);

TEST_P(FiniteRowsTest, EachPlaceOfARowCounts) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t cols : {int64_t{1}, int64_t{17}, int64_t{300}, int64_t{5000}}) {
    for (const float bad : {NAN, kInfinity, -kInfinity}) {
      for (const int64_t at : {int64_t{0}, cols / 2, cols - 1}) {
        std::vector<float> values(static_cast<size_t>(3 * cols), 1.5f);
        values[static_cast<size_t>(cols + at)] = bad;
        EXPECT_EQ(Run(values, 3, cols, cols), (std::vector<int32_t>{1, 0, 1})) << cols << " " << at;
      }
    }
  }
}

TEST_P(FiniteRowsTest, TheLargestNumbersAreNumbers) {
  std::vector<float> values = {std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::lowest(),
                               std::numeric_limits<float>::denorm_min(), -0.0f};
  EXPECT_EQ(Run(values, 1, 4, 4), (std::vector<int32_t>{1}));
}

TEST_P(FiniteRowsTest, WhatLiesBetweenRowsIsNotRead) {
  std::vector<float> values = {1, 2, NAN, 3, 4, NAN};
  EXPECT_EQ(Run(values, 2, 2, 3), (std::vector<int32_t>{1, 1}));
}

}  // namespace
}  // namespace longstream
