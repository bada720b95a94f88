// Keeps the costs of decode rows and of a prompt token as moving averages.
#include "service/engine/costs/step_cost_model.h"

#include <algorithm>

namespace longstream {
namespace {

// The weight of a new sample in the average. Batches and contexts change over some tens of steps.
constexpr double kNew = 0.25;

void Average(double sample, double* mean) {
  *mean = *mean == 0.0 ? sample : *mean + kNew * (sample - *mean);
}

}  // namespace

void StepCostModel::Learn(uint64_t decode_rows, uint64_t prompt_tokens, absl::Duration time) {
  if (time <= absl::ZeroDuration()) return;
  const double seconds = absl::ToDoubleSeconds(time);
  if (prompt_tokens == 0) {
    Average(seconds, &decode_seconds_);
    age_ = 0;
    return;
  }
  if (decode_rows > 0) ++age_;
  // Ignore shorter pieces, which are the ends of prompts. Their time mostly shows the fixed cost of
  // a step, not the cost of a token.
  if (prompt_tokens < grid_) return;
  const double of_prompts = decode_rows == 0 ? seconds : seconds - decode_seconds_;
  // `of_prompts` may be too small or negative, because the average time of decode rows may exceed
  // the time that they took in this step. `least` replaces it then.
  const double least = seconds / 8;
  Average(std::max(of_prompts, least) / static_cast<double>(prompt_tokens), &token_seconds_);
}

uint64_t StepCostModel::PromptTokens() const {
  if (decode_seconds_ == 0.0 || age_ >= kMaxAge) return 0;
  if (token_seconds_ == 0.0) return grid_;
  const double tokens = (stretch_ - 1.0) * decode_seconds_ / token_seconds_;
  // More tokens than any batch has. The clamp is needed because the conversion of a larger or a
  // negative number would be undefined behaviour.
  constexpr double kMost = 1u << 30;
  const auto lines = static_cast<uint64_t>(std::clamp(tokens, 0.0, kMost)) / grid_;
  return std::max<uint64_t>(lines, 1) * grid_;
}

}  // namespace longstream
