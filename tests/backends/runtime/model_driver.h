// Drives a Model in tests: feeds tokens and reads rows of logits.
#ifndef LONGSTREAM_TESTS_BACKENDS_RUNTIME_MODEL_DRIVER_H_
#define LONGSTREAM_TESTS_BACKENDS_RUNTIME_MODEL_DRIVER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/runtime/model.h"

namespace longstream {

// One sequence's part of a step.
struct Piece {
  ls_sequence* sequence = nullptr;
  std::vector<int32_t> tokens;
  bool is_decode = false;
  int32_t logit_rows = LS_ROWS_ALL;
  const ls_sampling* sampling = nullptr;
};

// A result, copied out of the model.
struct PieceResult {
  ls_code code = LS_OK;
  std::string message;
  int32_t sampled = -1;
  std::vector<float> logits;  // [rows, vocabulary]
};

// Submits a step and waits for it.
std::vector<PieceResult> Step(Model& model, const std::vector<Piece>& pieces);

// Feeds tokens in pieces of the given lengths; the last length is repeated. Length 0 is one decode
// token. Returns the logits of all rows, [tokens.size(), vocabulary]. Fails the test if a step
// fails. The sequence must have room for the tokens.
std::vector<float> Feed(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens,
                        std::span<const size_t> lengths);

// Prefill is Feed in one piece; Decode is Feed in decode rows only.
std::vector<float> Prefill(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens);
std::vector<float> Decode(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens);

// A sampled token, its log-probability and the most probable tokens.
struct Draw {
  ls_code code = LS_OK;
  std::string message;
  int32_t token = -1;
  std::vector<float> log_probs;  // of the token, then of `top`
  std::vector<int32_t> top;

  bool operator==(const Draw&) const = default;
};

// Sampling at temperature 1.5 without any filter, so that every bit of the logits matters.
ls_sampling WarmSampling();

// Reads `first`, then draws `steps` tokens. One ticket is in flight at a time, and the host feeds
// each token. The sequence must have room for the tokens.
std::vector<Draw> DecodeByHost(Model& model, ls_sequence& sequence, int32_t first, size_t steps,
                               const ls_sampling& sampling);

// Draws as DecodeByHost does, for several sequences in one batch that feed themselves, with two
// tickets in flight. Sequence i begins with first[i]. Returns [sequences][steps].
std::vector<std::vector<Draw>> DecodeAhead(Model& model, std::span<ls_sequence* const> sequences,
                                           std::span<const int32_t> first, size_t steps,
                                           const ls_sampling& sampling);

// A sequence with room for `tokens` tokens.
std::unique_ptr<ls_sequence> CreateReserved(Model& model, uint64_t tokens);

// The snapshot of a sequence.
std::string ExportBytes(const Model& model, const ls_sequence& sequence);

// The segments of a snapshot: the span of all full pages, then the fixed block.
std::string SegmentBytes(Model& model, ls_sequence& sequence);
// A sequence from the segments of `position`. Throws BackendError or Failure.
std::unique_ptr<ls_sequence> ImportSegments(Model& model, uint64_t position,
                                            const std::string& bytes);

// Ids below `vocabulary`, the same for the same seed.
std::vector<int32_t> RandomTokens(size_t count, int64_t vocabulary, uint32_t seed = 1);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_RUNTIME_MODEL_DRIVER_H_
