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
constexpr uint32_t kMostPieceTokens = 512;
constexpr size_t kDraws = 5;
// A text that ends before this depth says too little about the slopes.
constexpr uint64_t kLeastDepth = 1024;
// Below this depth the slopes stay near those that the memory gives.
constexpr uint64_t kSureDepth = 4096;

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
  // Room for the draws at each depth and at the end, and for those that are drawn anew.
  constexpr uint64_t kAllDraws = (kDepths.size() + 2) * kDraws;
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
  has_sample_ = has_grown_ = false;
  drawn_anew_ = 0;
  ++begun_;
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
  const uint32_t most = std::min(kMostPieceTokens, limits_.max_batch_tokens);
  return std::min(std::max(piece_, grid), std::max(most / grid * grid, std::min(most, grid)));
}

void ArmMeasurement::LearnPiece(const BackendModel& model, uint32_t tokens, absl::Duration time) {
  const uint32_t grid = std::max(1u, model.info().prefill_grid);
  const bool is_loading = limits_.is_loading != nullptr && limits_.is_loading->load();
  const absl::Duration most = is_loading ? kLoadingPiece : kServedPiece;
  // A short text has some pieces, too, so that they have a slope.
  const uint64_t most_tokens = std::min<uint64_t>(kMostPieceTokens, reserved_ / 8);
  latest_piece_ = time;
  piece_ = std::max(piece_, grid);
  if (time > most) {
    piece_ = std::max(tokens / 2 / grid, 1u) * grid;
  } else if (!has_grown_ && 2 * time <= most && 2 * piece_ <= most_tokens) {
    piece_ *= 2;
  } else {
    has_grown_ = is_warm_;
  }
}

bool ArmMeasurement::IsAtEnd(const BackendModel& model) const {
  const uint64_t position = sequence_.position();
  const uint32_t least = std::min(std::max(1u, model.info().prefill_grid), PieceTokens(model));
  if (position + least > reserved_) return position > 0;
  // The next piece takes about as long as the latest.
  return position > 0 && spent_ + latest_piece_ > limits_.most_time;
}

absl::Status ArmMeasurement::RunPiece(BackendModel& model) {
  const uint64_t position = sequence_.position();
  const uint64_t left = reserved_ - position;
  const uint32_t grid = std::max(1u, model.info().prefill_grid);
  // The engine reads whole grid intervals, too.
  const uint64_t whole = left >= grid ? left / grid * grid : left;
  const auto tokens = static_cast<uint32_t>(std::min<uint64_t>(PieceTokens(model), whole));
  const absl::StatusOr<absl::Duration> time = Step(model, tokens, /*is_decode=*/false);
  if (!time.ok()) return time.status();
  const uint32_t planned = PieceTokens(model);
  LearnPiece(model, tokens, *time);
  if (!is_warm_) return absl::OkStatus();
  // A token of a short piece costs more, because each step reads all weights.
  if (tokens > counted_) prefill_.clear();
  counted_ = std::max(counted_, tokens);
  if (tokens < counted_ && tokens < planned) return absl::OkStatus();
  latest_is_piece_ = has_sample_ = true;
  prefill_.push_back({static_cast<double>(position) + tokens / 2.0,
                      absl::ToDoubleSeconds(*time) / static_cast<double>(tokens)});
  return absl::OkStatus();
}

absl::Status ArmMeasurement::RunDraw(BackendModel& model) {
  const absl::StatusOr<absl::Duration> time = Step(model, 1, /*is_decode=*/true);
  if (!time.ok()) return time.status();
  draws_.push_back(absl::ToDoubleSeconds(*time));
  const bool is_slow = !is_warm_ && spent_ > limits_.most_time;
  if (draws_.size() < kDraws && !is_slow) return absl::OkStatus();
  const uint64_t position = sequence_.position();
  if (is_warm_) {
    const uint64_t middle = position - kDraws / 2;  // of the draws
    decode_.push_back({static_cast<double>(middle), MedianOf(draws_)});
    has_sample_ = true;
  }
  draws_.clear();
  while (next_depth_ < kDepths.size() && kDepths[next_depth_] <= position) ++next_depth_;
  if (IsAtEnd(model)) has_drawn_at_end_ = true;
  if (is_warm_) return absl::OkStatus();
  is_warm_ = true;
  // To load weights takes long, and the measurement needs some time, too.
  spent_ = std::min(spent_, limits_.most_time / 2);
  sequence_ = Sequence();
  return absl::OkStatus();
}

bool ArmMeasurement::Run(BackendModel& model) {
  absl::Status status;
  latest_is_piece_ = false;
  if (!sequence_.valid()) {
    const bool has_measured = !prefill_.empty() && !decode_.empty();
    const bool is_over = passes_ >= kMostPasses || begun_ >= kMostBegun ||
                         (has_measured && spent_ > 2 * limits_.most_time);
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
      if (prefill_.empty() || decode_.empty()) {  // live work has disturbed every piece
        Yield();
        return true;
      }
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

void ArmMeasurement::Disturb() {
  if (latest_is_piece_) {
    prefill_.pop_back();
  } else if (!draws_.empty() && drawn_anew_ < kDraws) {
    draws_.pop_back();
    ++drawn_anew_;
  }
  latest_is_piece_ = false;
}

void ArmMeasurement::Yield() {
  passes_ += sequence_.valid() && has_sample_ ? 1 : 0;
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
  } else if (deepest_ < kSureDepth) {
    LimitSlopeByMemory(model.memory().weights, &costs);
  }
  End(costs);
}

void ArmMeasurement::End(const std::optional<ArmCosts>& costs) {
  if (const Done done = std::exchange(done_, nullptr)) done(costs);
}

}  // namespace longstream
