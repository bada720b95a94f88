// The batch layout of op benchmarks: one sequence, whose pages lie in order.
#ifndef LONGSTREAM_TESTS_BENCH_STEP_H_
#define LONGSTREAM_TESTS_BENCH_STEP_H_

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/core/batch_layout.h"

namespace longstream {

// `rows` tokens that end at position `context`. A single row is a decode row.
struct Step {
  static constexpr int32_t kPageTokens = 64;

  Step(int64_t context, int64_t rows)
      : row_sequence(static_cast<size_t>(rows), 0),
        positions(static_cast<size_t>(rows)),
        pages(static_cast<size_t>((context + kPageTokens - 1) / kPageTokens)) {
    sequence.num_rows = static_cast<int32_t>(rows);
    sequence.first_position = context - rows;
    sequence.is_decode = rows == 1 ? 1 : 0;
    std::iota(positions.begin(), positions.end(), sequence.first_position);
    std::iota(pages.begin(), pages.end(), 0);
  }

  int64_t num_pages() const { return static_cast<int64_t>(pages.size()); }
  BatchLayout layout() const {
    return {.num_rows = sequence.num_rows,
            .num_sequences = 1,
            .num_decode_rows = sequence.is_decode,
            .sequences = &sequence,
            .row_sequence = row_sequence.data(),
            .positions = positions.data(),
            .page_tables = pages.data()};
  }

  SequenceRows sequence;
  std::vector<int32_t> row_sequence;
  std::vector<int64_t> positions;
  std::vector<int32_t> pages;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_STEP_H_
