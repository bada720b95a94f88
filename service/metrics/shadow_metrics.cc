// Registers the metrics of pairs of models when they are first used, and removes them.
#include "service/metrics/shadow_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace longstream {
namespace {

constexpr size_t kMostRetired = 1024;

using LabelMap = std::map<std::string, std::string>;

// 1 and 3 per decade: divergences spread over many orders of magnitude. The rounding of a model
// that is compared with itself in other batches is near 1e-9, another precision near 1e-4, another
// model above 1e-2.
const prometheus::Histogram::BucketBoundaries& KlBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
  return buckets;
}

}  // namespace

struct ShadowMetrics::Families {
  struct Pair {
    std::string model;
    std::string shadow;
    prometheus::Counter* turns = nullptr;
    prometheus::Counter* tokens = nullptr;
    prometheus::Counter* agreements = nullptr;
    prometheus::Histogram* kl = nullptr;
    std::map<std::string, prometheus::Counter*, std::less<>> drops;  // by reason
  };

  explicit Families(prometheus::Registry* metrics_registry) : registry(*metrics_registry) {}

  prometheus::Family<prometheus::Counter>& Counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Family<prometheus::Gauge>& Gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }

  bool IsRetired(const std::string& model) const { return retired.contains(model); }
  // The metrics of a pair. REQUIRES: the mutex is held.
  Pair& Of(std::string model, std::string shadow) {
    const auto found = pairs.find(model + "/" + shadow);
    if (found != pairs.end()) return found->second;
    if (pairs.size() >= kMostPairs || IsRetired(model) || IsRetired(shadow)) {
      model = shadow = "other";
    }
    const std::string name = model + "/" + shadow;
    Pair& pair = pairs[name];
    if (pair.turns != nullptr) return pair;
    const LabelMap labels{{"pair", name}};
    pair.model = std::move(model);
    pair.shadow = std::move(shadow);
    pair.turns = &turns.Add(labels);
    pair.tokens = &tokens.Add(labels);
    pair.agreements = &agreements.Add(labels);
    pair.kl = &kl.Add(labels, KlBuckets());
    return pair;
  }
  void Remove(const Pair& pair) {
    turns.Remove(pair.turns);
    tokens.Remove(pair.tokens);
    agreements.Remove(pair.agreements);
    kl.Remove(pair.kl);
    for (const auto& [reason, drops_of_reason] : pair.drops) drops.Remove(drops_of_reason);
  }

  prometheus::Registry& registry;
  prometheus::Family<prometheus::Counter>& turns =
      Counters("longstream_shadow_turns_total", "Turns that were replayed on another model");
  prometheus::Family<prometheus::Counter>& drops =
      Counters("longstream_shadow_dropped_turns_total", "Turns that were not replayed, by reason");
  prometheus::Family<prometheus::Counter>& tokens =
      Counters("longstream_compare_tokens_total", "Tokens of replayed answers");
  prometheus::Family<prometheus::Counter>& agreements =
      Counters("longstream_compare_top1_agreements_total",
               "Tokens of replayed answers with the same most probable token in both models");
  prometheus::Family<prometheus::Histogram>& kl =
      prometheus::BuildHistogram()
          .Name("longstream_compare_kl_nats")
          .Help("KL divergence of the shadow from the model, for each token of an answer")
          .Register(registry);
  prometheus::Gauge& queued =
      Gauges("longstream_shadow_queued_turns", "Turns that wait to be replayed").Add({});
  prometheus::Gauge& queued_bytes =
      Gauges("longstream_shadow_queued_bytes", "Bytes of the turns that wait to be replayed")
          .Add({});

  std::mutex mutex;
  std::map<std::string, Pair> pairs;  // by the label
  std::set<std::string, std::less<>> retired;
};

ShadowMetrics::ShadowMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

ShadowMetrics::~ShadowMetrics() = default;

void ShadowMetrics::AddTurn(const std::string& model, const std::string& shadow,
                            std::span<const double> kl, uint64_t agreements) {
  const std::lock_guard lock(families_->mutex);
  Families::Pair& pair = families_->Of(model, shadow);
  pair.tokens->Increment(static_cast<double>(kl.size()));
  pair.agreements->Increment(static_cast<double>(agreements));
  for (const double nats : kl) pair.kl->Observe(std::min(nats, kMostKl));
  pair.turns->Increment();  // last: a turn that is counted is counted everywhere
}

void ShadowMetrics::CountDrop(const std::string& model, const std::string& shadow,
                              std::string_view reason) {
  const std::lock_guard lock(families_->mutex);
  Families::Pair& pair = families_->Of(model, shadow);
  const auto found = pair.drops.find(reason);
  if (found != pair.drops.end()) return found->second->Increment();
  prometheus::Counter& counter = families_->drops.Add(
      {{"pair", pair.model + "/" + pair.shadow}, {"reason", std::string(reason)}});
  pair.drops.emplace(reason, &counter);
  counter.Increment();
}

void ShadowMetrics::SetQueue(size_t turns, uint64_t bytes) {
  families_->queued.Set(static_cast<double>(turns));
  families_->queued_bytes.Set(static_cast<double>(bytes));
}

void ShadowMetrics::Retire(std::string_view model) {
  const std::lock_guard lock(families_->mutex);
  std::set<std::string, std::less<>>& retired = families_->retired;
  // Turns of a model that was unloaded long ago do not wait any more.
  if (retired.size() >= kMostRetired) retired.erase(retired.begin());
  retired.emplace(model);
  for (auto it = families_->pairs.begin(); it != families_->pairs.end();) {
    const bool is_of_model = it->second.model == model || it->second.shadow == model;
    if (is_of_model) families_->Remove(it->second);
    it = is_of_model ? families_->pairs.erase(it) : std::next(it);
  }
}

void ShadowMetrics::Return(std::string_view model) {
  const std::lock_guard lock(families_->mutex);
  const auto found = families_->retired.find(model);
  if (found != families_->retired.end()) families_->retired.erase(found);
}

}  // namespace longstream
