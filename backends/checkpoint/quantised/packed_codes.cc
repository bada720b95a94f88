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

// The first `count` codes of a word, from its lowest bits on.
template <int kBits>
void UnpackWord(uint32_t word, int64_t count, uint8_t* codes) {
  constexpr int kCodes = 32 / kBits;
  const auto code = [word](int i) {
    return static_cast<uint8_t>(word >> (kBits * i) & ((1u << kBits) - 1));
  };
  if (count == kCodes) {
    for (int i = 0; i < kCodes; ++i) codes[i] = code(i);
    return;
  }
  for (int i = 0; i < count; ++i) codes[i] = code(i);
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
  const std::byte* words = window.words.words.data();
  const int64_t stride = window.words.column_stride;
  const bool along_rows = layout_.axis == CodeLayout::Axis::kRows;
  const int64_t word_row = (along_rows ? row / per_word : row) - window.first_word;
  int64_t index = word_row * window.words.row_stride;
  if (along_rows) {
    const auto place = static_cast<size_t>(row % per_word);
    const int shift = layout_.bits * layout_.order[place];
    const auto mask = static_cast<uint8_t>((1 << layout_.bits) - 1);
    for (int64_t column = 0; column < columns_; ++column, index += stride) {
      const uint32_t word = WordAt(words, index, layout_.word_bytes);
      codes[column] =
          static_cast<uint8_t>((static_cast<uint8_t>(word >> shift) & mask) ^ layout_.flip);
    }
    return;
  }
  for (int64_t column = 0; column < columns_; column += per_word, index += stride) {
    const uint32_t word = WordAt(words, index, layout_.word_bytes);
    const int64_t count = std::min(per_word, columns_ - column);
    if (layout_.bits == 4) {
      UnpackWord<4>(word, count, codes + column);
    } else {
      UnpackWord<8>(word ^ layout_.flip, count, codes + column);
    }
  }
}

}  // namespace longstream
