// Where a model's weights come from: a checkpoint, or a generator of random numbers in tests.
#ifndef LONGSTREAM_BACKENDS_SPEC_WEIGHT_SOURCE_H_
#define LONGSTREAM_BACKENDS_SPEC_WEIGHT_SOURCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/matrix.h"

namespace longstream {

// One tensor, or some rows of one. The parts of a weight lie one below the other.
struct WeightPart {
  std::string name;  // empty: no tensor but rows of zeros (vectors only)
  int64_t rows = 0;
  // The rows are [first_row, first_row + rows) of a tensor with stored_rows rows. If stored_rows is
  // 0, they are all rows of the tensor.
  int64_t stored_rows = 0;
  int64_t first_row = 0;
  // Not empty: reorders each block of order.size() rows. Stored row i of a block becomes row
  // order[i] of the block. The size divides `rows`.
  std::vector<int32_t> order{};

  // For a vector that is stored as a matrix: the matrix's columns. 0: it is stored as a vector.
  int64_t vector_cols = 0;
  // The tensor is stored as `stacked` matrices [all_rows() / stacked, k], not as one matrix. 0: it
  // is one matrix.
  int64_t stacked = 0;

  int64_t all_rows() const { return stored_rows == 0 ? rows : stored_rows; }
};

// A model asks for its tensors one after another, always in the same order. Each class says who
// owns the memory that it returns. Used by one thread.
class WeightSource {
 public:
  WeightSource() = default;
  virtual ~WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;

  // Packs the parts, rows of k numbers each, as one weight [sum of rows, k].
  virtual PackedWeight Projection(const std::vector<WeightPart>& parts, int64_t k) = 0;

  // Two weights of one tensor each, in the type that they would have as parts of one weight,
  // because one op reads both.
  virtual std::pair<PackedWeight, PackedWeight> Pair(const WeightPart& first,
                                                     const WeightPart& second, int64_t k) = 0;

  // Weights of one part each, in the type that they would have as parts of one weight, because one
  // op reads them all.
  virtual std::vector<PackedWeight> Alike(const std::vector<WeightPart>& parts, int64_t k) = 0;

  // As Projection, but in f32, whatever type is asked for: for small weights that decide much.
  virtual PackedWeight Exact(const std::vector<WeightPart>& parts, int64_t k) = 0;

  // The parts, rows of one number each, one after the other in f32. Adds `plus` to each number.
  virtual const float* Vector(const std::vector<WeightPart>& parts, float plus) = 0;

  // The tensor [rows, cols], in f32.
  virtual Matrix Table(std::string_view name, int64_t rows, int64_t cols) = 0;

  // A copy of `values`, which are computed and in no checkpoint.
  virtual const float* Constants(std::span<const float> values) = 0;

  // If there is a tensor `name`, it must equal the tensor `original`, which has been read.
  virtual void RequireCopy(std::string_view name, std::string_view original) = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_SPEC_WEIGHT_SOURCE_H_
