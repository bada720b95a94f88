// Registers the metrics of an arm in Prometheus, updates them and removes them.
#include "service/metrics/alias_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace longstream {
namespace {

using LabelMap = std::map<std::string, std::string>;

// 1, 2.5 and 5 per decade, from a millisecond to 100 seconds: fewer than those of a model, because
// each arm of each alias has these.
const prometheus::Histogram::BucketBoundaries& ArmLatencyBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100};
  return buckets;
}

}  // namespace

struct ArmMetrics::Families {
  Families(prometheus::Registry* metrics_registry, LabelMap arm_labels)
      : registry(*metrics_registry), labels(std::move(arm_labels)) {}

  // Adds a metric, or finds it, and remembers it for Retire.
  template <typename Metric, typename... Args>
  Metric& Add(prometheus::Family<Metric>& family, const LabelMap& all, const Args&... args) {
    Metric& metric = family.Add(all, args...);
    removals.try_emplace(&metric, [&family, &metric] { family.Remove(&metric); });
    return metric;
  }
  prometheus::Family<prometheus::Counter>& Counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Counter& Counter(const char* name, const char* help) {
    return Add(Counters(name, help), labels);
  }
  prometheus::Histogram& Histogram(const char* name, const char* help) {
    return Add(prometheus::BuildHistogram().Name(name).Help(help).Register(registry), labels,
               ArmLatencyBuckets());
  }

  prometheus::Registry& registry;
  const LabelMap labels;
  std::mutex mutex;  // for everything below
  bool retired = false;
  std::map<const void*, std::function<void()>> removals;  // by metric

  prometheus::Gauge& weight = Add(prometheus::BuildGauge()
                                      .Name("longstream_alias_weight")
                                      .Help("Weight of an arm of an alias")
                                      .Register(registry),
                                  labels);
  prometheus::Family<prometheus::Counter>& sessions =
      Counters("longstream_alias_sessions_total",
               "Sessions that an alias has given to a model, by the status of the call");
  prometheus::Family<prometheus::Counter>& routed =
      Counters("longstream_alias_routed_total",
               "Sessions and turns that a route has given to a model, by its reason");
  prometheus::Counter& turns =
      Counter("longstream_alias_turns_started_total", "Turns of an arm that its model has taken");
  prometheus::Family<prometheus::Counter>& requests = Counters(
      "longstream_alias_requests_total", "Turns of an arm that ended, by status and finish reason");
  prometheus::Counter& prompt =
      Counter("longstream_alias_prompt_tokens_total", "Tokens in the prompts of an arm's turns");
  prometheus::Counter& generated =
      Counter("longstream_alias_generated_tokens_total", "Tokens that an arm's turns generated");
  prometheus::Histogram& first_token =
      Histogram("longstream_alias_time_to_first_token_seconds",
                "Time from the arrival of an arm's turn to its first token");
  prometheus::Histogram& inter_token = Histogram("longstream_alias_inter_token_latency_seconds",
                                                 "Time between two tokens of an arm's turn");
  prometheus::Histogram& end_to_end = Histogram(
      "longstream_alias_request_e2e_seconds", "Time from the arrival of an arm's turn to its end");

  // Calls `change`, unless the metrics were removed.
  template <typename Change>
  void Do(const Change& change) {
    const std::lock_guard lock(mutex);
    if (!retired) change();
  }
};

ArmMetrics::ArmMetrics(prometheus::Registry* registry, const std::string& alias,
                       const std::string& model)
    : families_(std::make_unique<Families>(registry, LabelMap{{"alias", alias}, {"arm", model}})) {}

ArmMetrics::~ArmMetrics() = default;

void ArmMetrics::Retire() {
  const std::lock_guard lock(families_->mutex);
  families_->retired = true;
  for (const auto& [metric, remove] : families_->removals) remove();
  families_->removals.clear();
}

void ArmMetrics::SetWeight(uint64_t weight) {
  families_->Do([&] { families_->weight.Set(static_cast<double>(weight)); });
}

void ArmMetrics::CountSession(std::string_view code) {
  families_->Do([&] {
    LabelMap labels = families_->labels;
    labels.emplace("code", code);
    families_->Add(families_->sessions, labels).Increment();
  });
}

void ArmMetrics::CountRouted(std::string_view reason) {
  families_->Do([&] {
    LabelMap labels = families_->labels;
    labels.emplace("reason", reason);
    families_->Add(families_->routed, labels).Increment();
  });
}

void ArmMetrics::CountTurn() {
  families_->Do([&] { families_->turns.Increment(); });
}

void ArmMetrics::CountRequest(std::string_view code, std::string_view finish_reason) {
  families_->Do([&] {
    LabelMap labels = families_->labels;
    labels.emplace("code", code);
    labels.emplace("finish_reason", finish_reason);
    families_->Add(families_->requests, labels).Increment();
  });
}

void ArmMetrics::AddPromptTokens(uint64_t tokens) {
  families_->Do([&] { families_->prompt.Increment(static_cast<double>(tokens)); });
}
void ArmMetrics::AddGeneratedTokens(uint64_t tokens) {
  families_->Do([&] { families_->generated.Increment(static_cast<double>(tokens)); });
}
void ArmMetrics::ObserveTimeToFirstToken(double seconds) {
  families_->Do([&] { families_->first_token.Observe(seconds); });
}
void ArmMetrics::ObserveInterTokenLatency(double seconds) {
  families_->Do([&] { families_->inter_token.Observe(seconds); });
}
void ArmMetrics::ObserveEndToEnd(double seconds) {
  families_->Do([&] { families_->end_to_end.Observe(seconds); });
}

}  // namespace longstream
