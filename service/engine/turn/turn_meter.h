// A turn's usage and times, for its caller and for Prometheus.
#ifndef LONGSTREAM_SERVICE_ENGINE_TURN_TURN_METER_H_
#define LONGSTREAM_SERVICE_ENGINE_TURN_TURN_METER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "service/clock/monotonic_time.h"
#include "service/engine/turn/turn_events.h"
#include "service/metrics/model_metrics.h"

namespace longstream {

// One turn's counts and times, each told to the metrics when it happens. Used by one thread.
class TurnMeter {
 public:
  // `metrics` outlives the meter.
  TurnMeter(ModelMetrics* metrics, MonotonicTime arrival) : metrics_(metrics), arrival_(arrival) {}

  const TurnUsage& usage() const { return usage_; }

  void AddPrompt(uint64_t tokens);
  // The turn has its memory. `reused`: tokens found in the caches.
  void Admit(uint64_t reused, uint64_t recomputed, const std::string& reason, MonotonicTime now);
  // A piece of the prompt was read; the prompt was read to its end by the piece before.
  void AdvancePrefill(MonotonicTime now) { prefilled_ = now; }
  void FinishPrefill();
  // A token was drawn.
  void AddToken(MonotonicTime now);
  // The turn has ended. `bytes`: held by its session; absent: it has no caches.
  void End(const TurnEnd& end, const std::optional<SessionBytes>& bytes);

 private:
  ModelMetrics* const metrics_;
  const MonotonicTime arrival_;
  TurnUsage usage_;
  MonotonicTime admitted_;
  MonotonicTime prefilled_;  // when the last piece of the prompt was read; before it: admitted_
  MonotonicTime last_token_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_TURN_TURN_METER_H_
