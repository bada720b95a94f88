// Measures the costs of a model by depth while its engine has no turn.
#ifndef LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_MEASUREMENT_H_
#define LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_MEASUREMENT_H_

#include <cstdint>
#include <functional>
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
// do not count: they load weights and start threads.
//
// It uses half of the memory for caches that is free at most. A turn interrupts it, and then it
// begins again; what it has measured stays. After kMostPasses it ends with what it has.
class ArmMeasurement final : public IdleWork {
 public:
  static constexpr int kMostPasses = 5;

  struct Limits {
    uint32_t max_batch_tokens = kDefaultBatchTokens;
    uint64_t most_depth = 16384;
    absl::Duration most_time = absl::Seconds(5);  // of all steps together
  };
  // Called once, on the thread that runs or destroys the object. nullopt: nothing could be
  // measured. Must not block. `bytes_per_token` is not set.
  using Done = std::function<void(const std::optional<ArmCosts>& costs)>;

  ArmMeasurement(const Limits& limits, Done done) : limits_(limits), done_(std::move(done)) {}
  ~ArmMeasurement() override { End(std::nullopt); }

  bool Run(BackendModel& model) override;
  void Yield() override;

 private:
  // Begins a pass. RESOURCE_EXHAUSTED: there is no memory for it.
  absl::Status Begin(BackendModel& model);
  // Runs a step and returns its time.
  absl::StatusOr<absl::Duration> Step(BackendModel& model, uint32_t tokens, bool is_decode);
  absl::Status RunPiece(BackendModel& model);
  absl::Status RunDraw(BackendModel& model);
  uint32_t PieceTokens(const BackendModel& model) const;
  // Whether the text ends here.
  bool IsAtEnd(const BackendModel& model) const;
  void Finish(const BackendModel& model);
  void End(const std::optional<ArmCosts>& costs);

  const Limits limits_;
  Done done_;  // empty: was called
  Sequence sequence_;
  uint64_t reserved_ = 0;  // tokens
  bool is_warm_ = false;
  int passes_ = 0;
  size_t next_depth_ = 0;      // index of the depth with the next draws
  std::vector<double> draws_;  // seconds of the draws at the present depth
  bool has_drawn_at_end_ = false;
  absl::Duration spent_;
  absl::Duration latest_piece_;
  uint64_t deepest_ = 0;
  std::vector<CostSample> prefill_;
  std::vector<CostSample> decode_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ROUTING_ARM_MEASUREMENT_H_
