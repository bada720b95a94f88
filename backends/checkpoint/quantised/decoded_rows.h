// Spreads the decoding of rows over threads.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_DECODED_ROWS_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_DECODED_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/executor.h"

namespace longstream {

// Rows that one task decodes. They are neighbours, because words of packed integers may belong to
// several rows, and matrices that are stored by column have neighbouring rows in one cache line.
inline constexpr int64_t kRowsOfTask = 16;

// Calls body(begin, end, scratch) for blocks of rows that cover [first, first + rows), on all
// threads. Each block has its own copy of `scratch`, made before the first call: a task must not
// allocate, because no exception may leave it.
template <typename Scratch, typename Body>
void ForEachRowBlock(int64_t first, int64_t rows, const Executor& executor, const Scratch& scratch,
                     const Body& body) {
  const auto tasks = static_cast<uint32_t>((rows + kRowsOfTask - 1) / kRowsOfTask);
  std::vector<Scratch> scratches(tasks, scratch);
  ParallelFor(executor, tasks, [&](uint32_t task) {
    const int64_t begin = first + task * kRowsOfTask;
    body(begin, std::min(begin + kRowsOfTask, first + rows), scratches[task]);
  });
}

// The largest scale that a stored integer of 8 bits or a float of 8 bits may have: the product is a
// finite number of `type`.
inline float LargestScale(DType type) {
  return (type == DType::kF16 ? 65504.0f : 0x1p127f) / 512.0f;
}

// Stores numbers as elements of `type` (f32, f16 or bf16), rounded to nearest even.
inline void StoreRow(std::span<const float> numbers, DType type, std::byte* to) {
  if (type == DType::kF32) {
    std::memcpy(to, numbers.data(), numbers.size_bytes());
    return;
  }
  for (const float number : numbers) {
    const uint16_t bits = type == DType::kF16 ? ToF16(number).bits : ToBF16(number).bits;
    std::memcpy(to, &bits, sizeof(bits));
    to += sizeof(bits);
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_DECODED_ROWS_H_
