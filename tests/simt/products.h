// Shared parts of the tests of tensor cores: random matrices, and products by plain loops.
#ifndef LONGSTREAM_TESTS_SIMT_PRODUCTS_H_
#define LONGSTREAM_TESTS_SIMT_PRODUCTS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "kernels/core/dtype.h"

namespace longstream {

// Normal numbers; the same count gives the same numbers.
inline std::vector<BF16> RandomBF16(int count) {
  std::mt19937 engine(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<BF16> values(static_cast<size_t>(count));
  for (BF16& value : values) value = ToBF16(normal(engine));
  return values;
}

inline double Widened(BF16 value) { return ToF32(value); }
template <typename T>
double Widened(T value) {
  return static_cast<double>(value);
}

// A row-major matrix with `columns` columns, and its transpose, as functions of (row, column).
template <typename T>
auto Elements(const std::vector<T>& values, size_t columns) {
  return [&values, columns](size_t row, size_t column) {
    return Widened(values[row * columns + column]);
  };
}
template <typename T>
auto Transposed(const std::vector<T>& values, size_t columns) {
  return [of = Elements(values, columns)](size_t row, size_t column) { return of(column, row); };
}

constexpr double NoStart(size_t, size_t) { return 0; }

struct ProductSizes {
  size_t rows, columns, depth;
};

// Whether d [rows, columns] = start + a [rows, depth] b [depth, columns]. An element of d may err
// by `relative` times the sum of the magnitudes of its addends.
template <typename D, typename A, typename B, typename Start = decltype(NoStart)>
testing::AssertionResult IsProduct(const ProductSizes& sizes, const D& d, const A& a, const B& b,
                                   double relative, const Start& start = NoStart) {
  for (size_t row = 0; row < sizes.rows; ++row) {
    for (size_t column = 0; column < sizes.columns; ++column) {
      double sum = start(row, column), magnitude = std::abs(sum);
      for (size_t k = 0; k < sizes.depth; ++k) {
        sum += a(row, k) * b(k, column);
        magnitude += std::abs(a(row, k) * b(k, column));
      }
      const double found = d(row, column);
      if (std::abs(found - sum) <= relative * magnitude) continue;
      return testing::AssertionFailure() << "element " << row << ", " << column << " is " << found
                                         << ", expected " << sum << " of " << magnitude;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SIMT_PRODUCTS_H_
