// Reads rows of matrices that a quantised checkpoint stores: words of packed integers, and scales.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_STORED_MATRIX_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_STORED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/checkpoint/tensor_file.h"
#include "kernels/core/executor.h"

namespace longstream {

// A matrix of words [rows, columns]. A row belongs to one output (or to several) of a projection.
// Borrows the file. Immutable; safe to read from several threads.
class StoredMatrix {
 public:
  // `by_column`: the file has the transpose, [columns, rows]. REQUIRES: the tensor's bytes are
  // rows * columns * word_bytes.
  StoredMatrix(StoredPart part, int64_t rows, int64_t columns, int64_t word_bytes, bool by_column);

  // The words of some rows, in the order of the file.
  struct Window {
    std::vector<std::byte> words;
    int64_t row_stride = 0;     // in words, from one row to the next
    int64_t column_stride = 0;  // in words, from one column to the next
  };
  // Reads rows [first, first + rows) on all threads. Fails as TensorFile::Read does.
  Window Read(int64_t first, int64_t rows, const Executor& executor) const;

  const StoredPart& part() const { return part_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t word_bytes() const { return word_bytes_; }

 private:
  StoredPart part_;
  int64_t rows_, columns_;
  int64_t word_bytes_;
  bool by_column_;
};

// The scales of a matrix of weights, as f32: one for each `row_block` rows and each column of the
// stored matrix.
class ScaleMatrix {
 public:
  // `matrix` has elements of F32, F16 or BF16.
  ScaleMatrix(const StoredMatrix& matrix, int64_t row_block);

  struct Window {
    std::vector<float> scales;  // [blocks, columns]
    int64_t first_block = 0;
    int64_t row_block = 1;
    int64_t columns = 0;

    // The scales of a row of weights.
    const float* Row(int64_t row) const {
      return scales.data() + (row / row_block - first_block) * columns;
    }
  };
  // Reads the scales of rows [first, first + rows) of weights. LS_INVALID_ARGUMENT: a magnitude is
  // above `largest`, infinite or NaN.
  Window Read(int64_t first, int64_t rows, float largest, const Executor& executor) const;

  const StoredPart& part() const { return matrix_.part(); }
  int64_t columns() const { return matrix_.columns(); }
  int64_t row_block() const { return row_block_; }

 private:
  StoredMatrix matrix_;
  int64_t row_block_;
};

// "FILE: tensor NAME", the beginning of a sentence about a stored part.
std::string PartText(const StoredPart& part);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_STORED_MATRIX_H_
