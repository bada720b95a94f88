// Draws one token per row of logits, in the order of steps that the backend ABI fixes
// (backends/api/backend.h, ls_sampling): penalties, bias, allowed tokens, temperature, top-k,
// top-p, min-p, then Gumbel-max with counter-based noise.
//
// Penalties, bias and temperature are f32 operations in the order that the ABI gives. Logits
// divided by a tiny temperature may exceed f32; infinite quotients cannot be compared. So if the
// largest quotient is infinite, the token is the argmax of the logits before the division. That is
// the limit for a temperature towards 0.
//
// The noise of token id i at position p is -log(-log(u)), with
//
//   u = (x + 1/2) / 2^32,  x the first word of Philox4x32-10 (kernels/core/philox.h) with
//                          key (seed lo, seed hi) and counter (p lo, p hi, i, 0)
//
// u lies in (0, 1), both exclusive. The noise has f32 precision for the exact u, also near 1, where
// u itself would round to 1.
#ifndef LONGSTREAM_KERNELS_OPS_SAMPLING_SAMPLE_H_
#define LONGSTREAM_KERNELS_OPS_SAMPLING_SAMPLE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct TokenCount {
  int32_t token = 0;
  int32_t total = 0;      // occurrences in the whole history
  int32_t generated = 0;  // occurrences among the generated tokens that penalties count
};

struct LogitBias {
  int32_t token = 0;
  float bias = 0.0f;  // finite or -infinity
};

struct SamplingRow {
  int32_t row = 0;  // row of logits
  uint64_t seed = 0;
  int64_t position = 0;  // position of the token to be drawn
  float temperature = 0.0f;
  int32_t top_k = 0;  // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  // Token ids are in [0, vocabulary); each occurs once.
  const TokenCount* history = nullptr;  // [num_history] device
  int32_t num_history = 0;
  const LogitBias* bias = nullptr;  // [num_bias] device
  int32_t num_bias = 0;
  // Bit t % 32 of word t / 32: token t may be drawn. nullptr: every token may be drawn. Bits beyond
  // the vocabulary are ignored.
  const uint32_t* allowed = nullptr;  // [ceil(vocabulary / 32)] device
};

// Whether a mask, SamplingRow::allowed, allows the token.
constexpr bool IsAllowed(const uint32_t* allowed, int32_t token) {
  const auto bit = static_cast<uint32_t>(token);
  return allowed == nullptr || (allowed[bit / 32] >> (bit % 32) & 1) != 0;
}

// sampled[i] is -1 if row i holds a NaN, even if the token of that logit is not allowed. It is also
// -1 if the steps before the temperature give a NaN, or if they leave no logit above -infinity. A
// NaN that penalties or bias give to a token that is not allowed does not count.
struct SampleArgs {
  Matrix logits;                      // [R, vocabulary] f32; not modified
  const SamplingRow* rows = nullptr;  // [num_rows] device
  int32_t num_rows = 0;
  int32_t* sampled = nullptr;  // [num_rows] out
};
using SampleFunction = void (*)(Stream& stream, const SampleArgs& args);

// CUDA draws kSampleRowsAtOnce rows at once. Its kernels keep kSampleNotesBytes of notes about each
// of them.
inline constexpr int32_t kSampleRowsAtOnce = 64;
inline constexpr size_t kSampleNotesBytes = 8256;

// Bytes of workspace for one row: its adjusted logits and the ids of its candidates.
constexpr size_t SampleRowBytes(int64_t vocabulary) {
  return (static_cast<size_t>(vocabulary) * 8 + 63) / 64 * 64;
}

// Bytes of workspace for `rows` rows.
constexpr size_t SampleWorkspace(int64_t rows, int64_t vocabulary) {
  const int64_t rows_at_once = rows < kSampleRowsAtOnce ? rows : kSampleRowsAtOnce;
  return static_cast<size_t>(rows) * SampleRowBytes(vocabulary) +
         static_cast<size_t>(rows_at_once) * kSampleNotesBytes;
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_SAMPLING_SAMPLE_H_
