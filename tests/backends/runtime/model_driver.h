// A Model as tests drive it: feed tokens, look at rows of logits.
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

// Submits and waits.
std::vector<PieceResult> Step(Model& model, const std::vector<Piece>& pieces);

// Feeds tokens in pieces of the given lengths, the last repeated; a length of 0 is one decode
// token. Returns the logits of all rows, [tokens.size(), vocabulary]. Fails the test where a step
// fails. The sequence must have room for the tokens.
std::vector<float> Feed(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens,
                        std::span<const size_t> lengths);

// As above in one prefill piece, and one decode row after the other.
std::vector<float> Prefill(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens);
std::vector<float> Decode(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens);

// What a step drew for a sequence, with its log-probability and the most probable tokens.
struct Draw {
  ls_code code = LS_OK;
  std::string message;
  int32_t token = -1;
  std::vector<float> log_probs;  // of the token, then of `top`
  std::vector<int32_t> top;

  bool operator==(const Draw&) const = default;
};

// Draws at temperature 1.5, all else off, so that every bit of the logits matters.
ls_sampling WarmSampling();

// Draws `steps` tokens of a sequence after reading `first`: one ticket at a time, each token fed by
// the host. The sequence must have room for them.
std::vector<Draw> DecodeByHost(Model& model, ls_sequence& sequence, int32_t first, size_t steps,
                               const ls_sampling& sampling);

// The same for several sequences in one batch that feed themselves, two tickets in flight. Of
// sequence i from first[i]: [sequences][steps].
std::vector<std::vector<Draw>> DecodeAhead(Model& model, std::span<ls_sequence* const> sequences,
                                           std::span<const int32_t> first, size_t steps,
                                           const ls_sampling& sampling);

// A sequence with room for `tokens` tokens.
std::unique_ptr<ls_sequence> CreateReserved(Model& model, uint64_t tokens);

// The snapshot of a sequence.
std::string ExportBytes(const Model& model, const ls_sequence& sequence);

// Ids below `vocabulary`, the same for the same seed.
std::vector<int32_t> RandomTokens(size_t count, int64_t vocabulary, uint32_t seed = 1);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_RUNTIME_MODEL_DRIVER_H_
