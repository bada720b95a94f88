// The usage and the times of a turn, for its caller and for Prometheus.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_METER_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_METER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "service/clock/monotonic_time.h"
#include "service/engine/turn/turn_events.h"
#include "service/metrics/alias_metrics.h"
#include "service/metrics/model_metrics.h"

namespace longstream {

// The counts and times of one turn. Each is also added to the metrics when it happens. Used by one
// thread.
class TurnMeter {
 public:
  // `metrics`: of the model; nullptr: nobody counts the turn. `arm`: of the alias that the turn
  // came by; nullptr: it came by none. Both outlive the meter. `follows`: the turn takes the tokens
  // of another one, and goes as fast as that one. So its latencies say nothing about its model, and
  // are not added to the histograms.
  TurnMeter(ModelMetrics* metrics, ArmMetrics* arm, MonotonicTime arrival, bool follows)
      : metrics_(metrics), arm_(arm), arrival_(arrival), follows_(follows) {
    if (arm_ != nullptr) arm_->CountTurn();
  }

  const TurnUsage& usage() const { return usage_; }

  void AddPrompt(uint64_t tokens);
  // The turn was admitted.
  void Admit() { admitted_ = true; }
  // The turn has its caches. `recomputed`: history tokens that are computed again, because of
  // `reason`.
  void TakeCaches(const FoundCaches& found, uint64_t recomputed, const std::string& reason);
  // The admitted turn holds its first place in the batch, or has nothing to compute yet: its time
  // in the queue is over. Later calls change nothing.
  void Begin(MonotonicTime now);
  // AdvancePrefill: a piece of the prompt was read at `now`. FinishPrefill: that piece was the last
  // one. REQUIRES: Begin was called.
  void AdvancePrefill(MonotonicTime now) { prefilled_ = now; }
  void FinishPrefill();
  // A token was drawn.
  void AddToken(MonotonicTime now);
  // That token was one that the client had received before. `drawn_differs`: the model drew
  // another.
  void ForceToken(bool drawn_differs);
  // The turn computes nothing more: the usage is complete. `bytes`: the memory of its session;
  // absent if the session has no caches.
  void Finish(const std::optional<SessionBytes>& bytes);
  // The turn has ended.
  void End(const TurnEnd& end);

 private:
  void ObserveToken(MonotonicTime now);
  // Calls `f` with the metrics of the model, if there are any.
  template <typename F>
  void OfModel(const F& f) const {
    if (metrics_ != nullptr) f(*metrics_);
  }
  // Calls `f` with the metrics of the model, and then with those of the alias's arm, if there are
  // any.
  template <typename F>
  void OfAll(const F& f) const {
    OfModel(f);
    if (arm_ != nullptr) f(*arm_);
  }

  ModelMetrics* const metrics_;
  ArmMetrics* const arm_;
  const MonotonicTime arrival_;
  const bool follows_;
  TurnUsage usage_;
  bool admitted_ = false;
  std::optional<MonotonicTime> begun_;
  MonotonicTime prefilled_;  // when the latest prompt piece was read; begun_ before the first
  MonotonicTime last_token_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_METER_H_
