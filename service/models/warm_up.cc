// Runs the first steps of a model.
#include "service/models/warm_up.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"

namespace longstream {
namespace {

constexpr uint64_t kPromptTokens = 64;
constexpr uint64_t kDrawnTokens = 4;

// Runs one step and returns the drawn token.
absl::StatusOr<int32_t> Step(BackendModel& model, const Sequence& sequence,
                             std::span<const int32_t> tokens, bool is_decode) {
  ls_sampling greedy{};
  greedy.struct_size = sizeof(greedy);
  greedy.top_p = 1.0f;
  greedy.repetition_penalty = 1.0f;
  ls_batch_entry entry{};
  entry.sequence = sequence.handle();
  entry.tokens = tokens.data();
  entry.num_tokens = static_cast<uint32_t>(tokens.size());
  entry.is_decode = is_decode ? 1 : 0;
  entry.sampling = &greedy;
  const absl::StatusOr<uint64_t> ticket = model.Submit({&entry, 1});
  if (!ticket.ok()) return ticket.status();
  const absl::StatusOr<std::span<const ls_result>> results = model.Wait(*ticket);
  if (!results.ok()) return results.status();
  const ls_result& result = results->front();
  if (result.code != LS_OK) return FailureOf(result);
  return result.sampled;
}

}  // namespace

absl::Status WarmUp(BackendModel& model, uint32_t max_batch_tokens) {
  const uint64_t context = model.info().context_limit;
  if (context < 2) return absl::OkStatus();
  // A prompt may end anywhere, but a step takes no more than max_batch_tokens.
  const uint64_t prompt = std::min({kPromptTokens, context - 1, uint64_t{max_batch_tokens}});
  const uint64_t drawn = std::min(kDrawnTokens, context - prompt);
  absl::StatusOr<Sequence> sequence = model.CreateSequence();
  if (!sequence.ok()) return sequence.status();
  if (absl::Status status = sequence->Reserve(prompt + drawn); !status.ok()) return status;
  const std::vector<int32_t> tokens(prompt, 0);
  absl::StatusOr<int32_t> token = Step(model, *sequence, tokens, /*is_decode=*/false);
  for (uint64_t i = 1; token.ok() && i < drawn; ++i) {
    const int32_t previous = *token;
    token = Step(model, *sequence, {&previous, 1}, /*is_decode=*/true);
  }
  return token.status();
}

}  // namespace longstream
