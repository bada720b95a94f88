// Matrices of integers of 4 or 8 bits, packed in words.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_PACKED_CODES_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_PACKED_CODES_H_

#include <array>
#include <cstdint>

#include "backends/checkpoint/quantised/stored_matrix.h"
#include "kernels/core/executor.h"

namespace longstream {

// How codes lie in words. A code is an unsigned integer of `bits` bits.
struct CodeLayout {
  enum class Axis { kRows, kColumns };

  int bits = 4;                // 4 or 8
  int word_bytes = 4;          // 4 or 1; a word has 8 * word_bytes / bits codes
  Axis axis = Axis::kColumns;  // the codes of a word are neighbours in a column or in a row
  bool by_column = false;      // the file has the words of a column, then those of the next
  // Only along rows: code i of a word is at bits [bits * order[i], bits * order[i] + bits). Along
  // columns, the codes follow each other from the lowest bits on.
  std::array<uint8_t, 8> order = {0, 1, 2, 3, 4, 5, 6, 7};
  // Only for words of one byte: combined with each code by exclusive or; 0x80 makes int8 unsigned.
  uint8_t flip = 0;

  int64_t codes_of_word() const { return 8 * word_bytes / bits; }
  // Words for so many codes along the axis.
  int64_t Words(int64_t codes) const { return (codes + codes_of_word() - 1) / codes_of_word(); }
};

// A matrix of codes [rows, columns]. Borrows the file. Immutable; safe to read from several
// threads.
class PackedCodes {
 public:
  // REQUIRES: the tensor's elements are words of layout.word_bytes bytes. LS_INVALID_ARGUMENT: it
  // has another shape than the layout gives for rows and columns.
  PackedCodes(StoredPart part, int64_t rows, int64_t columns, const CodeLayout& layout);

  struct Window {
    StoredMatrix::Window words;
    int64_t first_word = 0;  // the row of words at which the window begins
  };
  // Reads the codes of rows [first, first + rows).
  Window Read(int64_t first, int64_t rows, const Executor& executor) const;
  // Writes the codes of a row of the window to codes [columns].
  void Unpack(const Window& window, int64_t row, uint8_t* codes) const;

  const StoredPart& part() const { return words_.part(); }

 private:
  CodeLayout layout_;
  int64_t columns_;  // of codes
  StoredMatrix words_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_PACKED_CODES_H_
