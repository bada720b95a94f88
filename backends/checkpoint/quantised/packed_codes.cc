// Unpacks matrices of integers.
#include "backends/checkpoint/quantised/packed_codes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/errors/error.h"

namespace longstream {
namespace {

StoredMatrix WordsOf(const StoredPart& part, int64_t rows, int64_t columns,
                     const CodeLayout& layout) {
  if (layout.axis == CodeLayout::Axis::kRows) {
    rows = layout.Words(rows);
  } else {
    columns = layout.Words(columns);
  }
  std::vector<int64_t> shape = {rows, columns};
  if (layout.by_column) std::swap(shape[0], shape[1]);
  if (part.tensor->shape != shape) {
    throw BackendError(LS_INVALID_ARGUMENT, PartText(part) + " must have the shape " +
                                                ShapeText(shape) + ", found " +
                                                ShapeText(part.tensor->shape));
  }
  return StoredMatrix(part, rows, columns, layout.word_bytes, layout.by_column);
}

uint32_t WordAt(const std::byte* words, int64_t index, int word_bytes) {
  if (word_bytes == 1) return static_cast<uint8_t>(words[index]);
  uint32_t word;
  std::memcpy(&word, words + index * 4, sizeof(word));
  return word;
}

}  // namespace

PackedCodes::PackedCodes(StoredPart part, int64_t rows, int64_t columns, const CodeLayout& layout)
    : layout_(layout), columns_(columns), words_(WordsOf(part, rows, columns, layout)) {}

PackedCodes::Window PackedCodes::Read(int64_t first, int64_t rows, const Executor& executor) const {
  const int64_t per_word = layout_.axis == CodeLayout::Axis::kRows ? layout_.codes_of_word() : 1;
  const int64_t begin = first / per_word;
  const int64_t end = (first + rows + per_word - 1) / per_word;
  return {words_.Read(begin, end - begin, executor), begin};
}

void PackedCodes::Unpack(const Window& window, int64_t row, uint8_t* codes) const {
  const int64_t per_word = layout_.codes_of_word();
  const auto mask = static_cast<uint8_t>((1 << layout_.bits) - 1);
  const std::byte* words = window.words.words.data();
  const int64_t stride = window.words.column_stride;
  const bool along_rows = layout_.axis == CodeLayout::Axis::kRows;
  const int64_t word_row = (along_rows ? row / per_word : row) - window.first_word;
  int64_t index = word_row * window.words.row_stride;
  const auto code = [&](uint32_t word, int64_t i) {
    const int shift = layout_.bits * layout_.order[static_cast<size_t>(i)];
    return static_cast<uint8_t>((static_cast<uint8_t>(word >> shift) & mask) ^ layout_.flip);
  };
  if (along_rows) {
    for (int64_t column = 0; column < columns_; ++column, index += stride) {
      codes[column] = code(WordAt(words, index, layout_.word_bytes), row % per_word);
    }
    return;
  }
  for (int64_t column = 0; column < columns_; column += per_word, index += stride) {
    const uint32_t word = WordAt(words, index, layout_.word_bytes);
    const int64_t count = std::min(per_word, columns_ - column);
    for (int64_t i = 0; i < count; ++i) codes[column + i] = code(word, i);
  }
}

}  // namespace longstream
