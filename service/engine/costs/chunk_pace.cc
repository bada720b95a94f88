// Keeps the cost of a token, and is quick to expect the worse.
#include "service/engine/costs/chunk_pace.h"

#include <algorithm>

namespace longstream {
namespace {

// The weight of a step that was faster than expected.
constexpr double kFaster = 0.25;

}  // namespace

void ChunkPace::Learn(uint64_t tokens, absl::Duration time) {
  if (tokens == 0 || time <= absl::ZeroDuration()) return;
  most_read_ = std::max(most_read_, tokens);
  const double sample = absl::ToDoubleSeconds(time) / static_cast<double>(tokens);
  token_seconds_ =
      sample >= token_seconds_ ? sample : token_seconds_ + kFaster * (sample - token_seconds_);
}

uint64_t ChunkPace::MostTokens() const {
  if (token_seconds_ == 0.0) return grid_;
  // The clamp is needed because the conversion of a larger number would be undefined behaviour.
  constexpr double kMost = 1u << 30;
  const double tokens = std::min(absl::ToDoubleSeconds(limit_) / token_seconds_, kMost);
  const uint64_t known = std::max(grid_, 2 * most_read_);
  return std::max<uint64_t>(std::min(static_cast<uint64_t>(tokens), known) / grid_, 1) * grid_;
}

}  // namespace longstream
