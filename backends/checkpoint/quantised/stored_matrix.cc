// Reads rows of stored matrices.
#include "backends/checkpoint/quantised/stored_matrix.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

// One element of F32, F16 or BF16 as f32.
float NumberAt(const std::byte* place, DType type) {
  if (type == DType::kF32) {
    float number;
    std::memcpy(&number, place, sizeof(number));
    return number;
  }
  uint16_t bits;
  std::memcpy(&bits, place, sizeof(bits));
  return type == DType::kF16 ? ToF32(F16{bits}) : ToF32(BF16{bits});
}

}  // namespace

StoredMatrix::StoredMatrix(StoredPart part, int64_t rows, int64_t columns, int64_t word_bytes,
                           bool by_column)
    : part_(part), rows_(rows), columns_(columns), word_bytes_(word_bytes), by_column_(by_column) {}

StoredMatrix::Window StoredMatrix::Read(int64_t first, int64_t rows,
                                        const Executor& executor) const {
  Window window;
  window.words.resize(static_cast<size_t>(rows * columns_ * word_bytes_));
  const uint64_t begin = part_.tensor->offset;
  if (by_column_) {
    window.row_stride = 1;
    window.column_stride = rows;
    part_.file->ReadPieces(begin + static_cast<uint64_t>(first * word_bytes_),
                           static_cast<uint64_t>(rows_ * word_bytes_),
                           static_cast<size_t>(rows * word_bytes_), window.words, executor);
  } else {
    window.row_stride = columns_;
    window.column_stride = 1;
    part_.file->Read(begin + static_cast<uint64_t>(first * columns_ * word_bytes_), window.words,
                     executor);
  }
  return window;
}

ScaleMatrix::ScaleMatrix(const StoredMatrix& matrix, int64_t row_block)
    : matrix_(matrix), row_block_(row_block) {}

ScaleMatrix::Window ScaleMatrix::Read(int64_t first, int64_t rows, float largest,
                                      const Executor& executor) const {
  Window window;
  window.first_block = first / row_block_;
  window.row_block = row_block_;
  window.columns = matrix_.columns();
  const int64_t blocks = (first + rows - 1) / row_block_ - window.first_block + 1;
  const StoredMatrix::Window stored = matrix_.Read(window.first_block, blocks, executor);
  window.scales.resize(static_cast<size_t>(blocks * window.columns));
  float* scale = window.scales.data();
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t column = 0; column < window.columns; ++column, ++scale) {
      const int64_t word = block * stored.row_stride + column * stored.column_stride;
      *scale =
          NumberAt(stored.words.data() + word * matrix_.word_bytes(), *matrix_.part().tensor->type);
      if (std::fabs(*scale) <= largest) continue;  // false for NaN
      char text[96];
      std::snprintf(text, sizeof(text), "%g, expected a magnitude of at most %g", *scale, largest);
      throw BackendError(LS_INVALID_ARGUMENT,
                         PartText(matrix_.part()) + ": the scale of output " +
                             std::to_string((window.first_block + block) * row_block_) +
                             ", group " + std::to_string(column) + " is " + text);
    }
  }
  return window;
}

std::string PartText(const StoredPart& part) {
  return part.file->path() + ": tensor " + Quoted(part.tensor->name);
}

}  // namespace longstream
