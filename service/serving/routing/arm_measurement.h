// Measures the costs of a model by depth while its engine has no turn.
#ifndef LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_MEASUREMENT_H_
#define LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_MEASUREMENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/idle_work.h"
#include "service/models/backend_model.h"
#include "service/routing/arm_costs.h"
#include "service/routing/cost_line.h"

namespace longstream {

// Reads a text of arbitrary tokens in pieces, as the engine reads a prompt, and draws some tokens
// behind 512, 1024, 4096 and 16384 of them, and where it ends. The first piece and the first draws
// do not count: they load weights and start threads. The first pieces have one grid interval. They
// become longer while they stay within Limits, and only the prompt costs of the longest pieces
// count.
//
// It uses half of the memory for caches that is free at most. A turn interrupts it, and then it
// begins again; what it has measured stays. After kMostPasses with samples, or kMostBegun at all,
// it ends with what it has.
class ArmMeasurement final : public IdleWork {
 public:
  static constexpr int kMostPasses = 5;
  static constexpr int kMostBegun = 50;
  // Costs that were measured to a lesser depth are worth no file, unless the context is shorter.
  static constexpr uint64_t kKeptDepth = 512;
  // A turn may wait for a piece. If one grid interval takes longer, it is the piece.
  static constexpr absl::Duration kServedPiece = absl::Milliseconds(20);
  static constexpr absl::Duration kLoadingPiece = absl::Milliseconds(500);

  struct Limits {
    uint32_t max_batch_tokens = kDefaultBatchTokens;
    uint64_t most_depth = 16384;
    // Of all steps together, but for one piece and the draws behind it, which always run.
    absl::Duration most_time = absl::Seconds(5);
    // Whether the model is still being loaded: pieces last kLoadingPiece at most, and otherwise
    // kServedPiece. nullptr: it is not.
    std::shared_ptr<const std::atomic<bool>> is_loading = nullptr;
  };
  // Called once, on the thread that runs or destroys the object. nullopt: nothing could be
  // measured. Must not block. `bytes_per_token` is not set.
  using Done = std::function<void(const std::optional<ArmCosts>& costs)>;

  ArmMeasurement(const Limits& limits, Done done) : limits_(limits), done_(std::move(done)) {}
  ~ArmMeasurement() override { End(std::nullopt); }

  bool Run(BackendModel& model) override;
  void Disturb() override;
  void Yield() override;

 private:
  // Begins a pass. RESOURCE_EXHAUSTED: there is no memory for it.
  absl::Status Begin(BackendModel& model);
  // Runs a step and returns its time.
  absl::StatusOr<absl::Duration> Step(BackendModel& model, uint32_t tokens, bool is_decode);
  absl::Status RunPiece(BackendModel& model);
  absl::Status RunDraw(BackendModel& model);
  uint32_t PieceTokens(const BackendModel& model) const;
  // Fits the length of the next piece to the time of this one.
  void LearnPiece(const BackendModel& model, uint32_t tokens, absl::Duration time);
  // Whether the text ends here.
  bool IsAtEnd(const BackendModel& model) const;
  void Finish(const BackendModel& model);
  void End(const std::optional<ArmCosts>& costs);

  const Limits limits_;
  Done done_;  // empty: was called
  Sequence sequence_;
  uint64_t reserved_ = 0;  // tokens
  bool is_warm_ = false;
  int begun_ = 0;            // passes, with those that were interrupted before they gave a sample
  int passes_ = 0;           // with a sample
  bool has_sample_ = false;  // of this pass
  uint32_t piece_ = 0;       // tokens of the next piece; 0: one grid interval
  uint32_t counted_ = 0;     // tokens of the pieces in prefill_
  bool has_grown_ = false;   // the pieces of this pass become no longer
  size_t drawn_anew_ = 0;    // draws of this pass that were disturbed
  bool latest_is_piece_ = false;  // the latest step has added to prefill_
  size_t next_depth_ = 0;         // index of the depth with the next draws
  std::vector<double> draws_;     // seconds of the draws at the present depth
  bool has_drawn_at_end_ = false;
  absl::Duration spent_;
  absl::Duration latest_piece_;
  uint64_t deepest_ = 0;
  std::vector<CostSample> prefill_;
  std::vector<CostSample> decode_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_MEASUREMENT_H_
