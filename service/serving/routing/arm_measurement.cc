// The steps of a measurement.
#include "service/serving/routing/arm_measurement.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "service/clock/monotonic_time.h"
#include "service/routing/cost_line.h"

namespace longstream {
namespace {

// The depths of draws. The pieces before them make the positions a little larger.
constexpr std::array<uint64_t, 4> kDepths = {512, 1024, 4096, 16384};
constexpr uint32_t kPieceTokens = 512;
constexpr size_t kDraws = 5;
// A text that ends before this depth says too little about the slopes.
constexpr uint64_t kLeastDepth = 1024;

}  // namespace

absl::Status ArmMeasurement::Begin(BackendModel& model) {
  const ls_model_info& info = model.info();
  uint64_t most = std::min(limits_.most_depth, info.context_limit);
  const ls_memory memory = model.memory();
  const uint64_t fixed = info.window_bytes_per_sequence + info.state_bytes_per_sequence +
                         info.checkpoint_bytes_per_sequence;
  const uint64_t free = (memory.budget - std::min(memory.budget, memory.reserved)) / 2;
  if (free < fixed) return absl::ResourceExhaustedError("there is no memory for a measurement");
  if (info.kv_bytes_per_token > 0) most = std::min(most, (free - fixed) / info.kv_bytes_per_token);
  // Room for the draws at each depth and at the end.
  constexpr uint64_t kAllDraws = (kDepths.size() + 1) * kDraws;
  if (most < 2 * kAllDraws) {
    return absl::ResourceExhaustedError("there is no memory for a measurement");
  }
  absl::StatusOr<Sequence> sequence = model.CreateSequence();
  if (!sequence.ok()) return sequence.status();
  if (absl::Status status = sequence->Reserve(most); !status.ok()) return status;
  sequence_ = *std::move(sequence);
  reserved_ = most - kAllDraws;
  next_depth_ = 0;
  draws_.clear();
  has_drawn_at_end_ = false;
  ++passes_;
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> ArmMeasurement::Step(BackendModel& model, uint32_t tokens,
                                                    bool is_decode) {
  // A prime, so that the tokens are all different for a while.
  constexpr uint64_t kStride = 7919;
  const uint64_t position = sequence_.position();
  std::vector<int32_t> ids(tokens);
  for (uint32_t i = 0; i < tokens; ++i) {
    ids[i] = static_cast<int32_t>((position + i) * kStride % model.info().vocabulary_size);
  }
  ls_sampling greedy{};
  greedy.struct_size = sizeof(greedy);
  greedy.top_p = 1.0f;
  greedy.repetition_penalty = 1.0f;
  ls_batch_entry entry{};
  entry.sequence = sequence_.handle();
  entry.tokens = ids.data();
  entry.num_tokens = tokens;
  entry.is_decode = is_decode ? 1 : 0;
  entry.sampling = is_decode ? &greedy : nullptr;
  const MonotonicTime begin = MonotonicTime::Now();
  const absl::StatusOr<uint64_t> ticket = model.Submit({&entry, 1});
  if (!ticket.ok()) return ticket.status();
  const absl::StatusOr<std::span<const ls_result>> results = model.Wait(*ticket);
  if (!results.ok()) return results.status();
  const absl::Duration time = MonotonicTime::Now() - begin;
  if (results->front().code != LS_OK) return FailureOf(results->front());
  spent_ += time;
  deepest_ = std::max(deepest_, sequence_.position());
  return time;
}

uint32_t ArmMeasurement::PieceTokens(const BackendModel& model) const {
  const uint32_t grid = std::max(1u, model.info().prefill_grid);
  const uint32_t most = std::min(kPieceTokens, limits_.max_batch_tokens);
  return std::max(most / grid * grid, std::min(most, grid));
}

bool ArmMeasurement::IsAtEnd(const BackendModel& model) const {
  const uint64_t position = sequence_.position();
  if (position + PieceTokens(model) > reserved_) return position > 0;
  // The next piece takes about as long as the latest.
  return position > 0 && spent_ + latest_piece_ > limits_.most_time;
}

absl::Status ArmMeasurement::RunPiece(BackendModel& model) {
  const uint64_t position = sequence_.position();
  const auto tokens =
      static_cast<uint32_t>(std::min<uint64_t>(PieceTokens(model), reserved_ - position));
  const absl::StatusOr<absl::Duration> time = Step(model, tokens, /*is_decode=*/false);
  if (!time.ok()) return time.status();
  latest_piece_ = *time;
  if (!is_warm_) return absl::OkStatus();
  prefill_.push_back({static_cast<double>(position) + tokens / 2.0,
                      absl::ToDoubleSeconds(*time) / static_cast<double>(tokens)});
  return absl::OkStatus();
}

absl::Status ArmMeasurement::RunDraw(BackendModel& model) {
  const absl::StatusOr<absl::Duration> time = Step(model, 1, /*is_decode=*/true);
  if (!time.ok()) return time.status();
  draws_.push_back(absl::ToDoubleSeconds(*time));
  if (draws_.size() < kDraws) return absl::OkStatus();
  const uint64_t position = sequence_.position();
  const uint64_t middle = position - kDraws / 2;  // of the draws
  if (is_warm_) decode_.push_back({static_cast<double>(middle), MedianOf(draws_)});
  draws_.clear();
  while (next_depth_ < kDepths.size() && kDepths[next_depth_] <= position) ++next_depth_;
  if (IsAtEnd(model)) has_drawn_at_end_ = true;
  if (is_warm_) return absl::OkStatus();
  is_warm_ = true;
  spent_ = absl::ZeroDuration();
  --passes_;
  sequence_ = Sequence();
  return absl::OkStatus();
}

bool ArmMeasurement::Run(BackendModel& model) {
  absl::Status status;
  if (!sequence_.valid()) {
    const bool has_measured = !prefill_.empty() && !decode_.empty();
    const bool is_over = passes_ >= kMostPasses || (has_measured && spent_ > 2 * limits_.most_time);
    if (has_measured && is_over) {
      Finish(model);
      return false;
    }
    status = is_over ? absl::AbortedError("turns have interrupted it") : Begin(model);
  }
  if (status.ok()) {
    const bool at_depth =
        next_depth_ < kDepths.size() && sequence_.position() >= kDepths[next_depth_];
    const bool draws =
        sequence_.position() > 0 && (!draws_.empty() || !is_warm_ || at_depth || IsAtEnd(model));
    if (draws && has_drawn_at_end_) {
      Finish(model);
      return false;
    }
    status = draws ? RunDraw(model) : RunPiece(model);
  }
  if (status.ok()) return true;
  sequence_ = Sequence();
  if (!prefill_.empty() && !decode_.empty()) {
    Finish(model);
  } else {
    End(std::nullopt);
  }
  return false;
}

void ArmMeasurement::Yield() {
  sequence_ = Sequence();
  draws_.clear();
}

void ArmMeasurement::Finish(const BackendModel& model) {
  sequence_ = Sequence();
  const ls_model_info& info = model.info();
  ArmCosts costs;
  costs.measured_depth = deepest_;
  costs.prefill = FitLine(prefill_);
  costs.decode = FitLine(decode_);
  costs.context_limit = info.context_limit;
  costs.kv_bytes_per_token = info.kv_bytes_per_token;
  costs.page_tokens = info.page_tokens;
  costs.fixed_bytes = info.window_bytes_per_sequence + info.state_bytes_per_sequence;
  if (deepest_ < std::min(kLeastDepth, info.context_limit / 2)) {
    SetSlopesByMemory(model.memory().weights, &costs);
  }
  End(costs);
}

void ArmMeasurement::End(const std::optional<ArmCosts>& costs) {
  if (const Done done = std::exchange(done_, nullptr)) done(costs);
}

}  // namespace longstream
