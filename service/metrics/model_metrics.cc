// Registers the metrics of a model in Prometheus, and updates them.
#include "service/metrics/model_metrics.h"

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
using Buckets = prometheus::Histogram::BucketBoundaries;

// Bucket bounds in seconds: 1, 2.5 and 5 per decade, from 100 microseconds to 100 seconds.
const Buckets& LatencyBuckets() {
  static const Buckets buckets = {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1,
                                  0.25, 0.5,    1,    2.5,  5,      10,   25,   50,    100};
  return buckets;
}

// Bucket bounds in bytes: powers of four from 4 KiB to 64 GiB.
const Buckets& ByteBuckets() {
  static const Buckets buckets = [] {
    Buckets powers;
    for (double bytes = 4096; bytes <= 64.0 * (1ull << 30); bytes *= 4) powers.push_back(bytes);
    return powers;
  }();
  return buckets;
}

double Ratio(uint64_t used, uint64_t budget) {
  return budget == 0 ? 0.0 : static_cast<double>(used) / static_cast<double>(budget);
}

}  // namespace

struct ModelMetrics::Families {
  Families(prometheus::Registry* metrics_registry, LabelMap model_labels)
      : registry(*metrics_registry), labels(std::move(model_labels)) {}

  // Returns the labels of the model with one more label.
  LabelMap With(std::string_view name, std::string_view value) const {
    LabelMap all = labels;
    all.emplace(name, value);
    return all;
  }

  // Adds a metric, or finds it, and remembers it for Retire.
  template <typename Metric, typename... Args>
  Metric& Add(prometheus::Family<Metric>& family, const LabelMap& all, const Args&... args) {
    Metric& metric = family.Add(all, args...);
    const std::lock_guard lock(mutex);
    removals.try_emplace(&metric, [&family, &metric] { family.Remove(&metric); });
    return metric;
  }

  prometheus::Gauge& Gauge(const char* name, const char* help, const LabelMap& all) {
    return Add(prometheus::BuildGauge().Name(name).Help(help).Register(registry), all);
  }
  prometheus::Counter& Counter(const char* name, const char* help) {
    return Add(prometheus::BuildCounter().Name(name).Help(help).Register(registry), labels);
  }
  prometheus::Counter& Restored(const char* from) {
    return Add(prometheus::BuildCounter()
                   .Name("longstream_restored_tokens_total")
                   .Help("History tokens whose caches were read from the store, or have come from "
                         "another replica")
                   .Register(registry),
               With("from", from));
  }
  prometheus::Histogram& Histogram(const char* name, const char* help,
                                   const Buckets& buckets = LatencyBuckets()) {
    return Add(prometheus::BuildHistogram().Name(name).Help(help).Register(registry), labels,
               buckets);
  }
  prometheus::Gauge& Pool(const char* pool) {
    return Gauge("longstream_cache_usage_ratio", "Share of the cache budget that a pool holds",
                 With("pool", pool));
  }
  prometheus::Gauge& Memory(const char* kind) {
    return Gauge("longstream_memory_bytes", "Bytes that the model holds", With("kind", kind));
  }
  prometheus::Gauge& Sessions(const char* which) {
    return Gauge("longstream_sessions", "Open sessions", With("state", which));
  }

  prometheus::Registry& registry;
  const LabelMap labels;
  std::mutex mutex;                                       // guards removals
  std::map<const void*, std::function<void()>> removals;  // by metric

  prometheus::Gauge& running =
      Gauge("longstream_requests_running", "Turns that were admitted and have not ended", labels);
  prometheus::Gauge& waiting =
      Gauge("longstream_requests_waiting", "Turns that wait for admission", labels);
  prometheus::Gauge& oldest_waiting =
      Gauge("longstream_oldest_waiting_timestamp_seconds",
            "When the turn arrived that has waited longest for admission; 0: none waits", labels);
  prometheus::Gauge& parked = Gauge("longstream_requests_parked",
                                    "Admitted turns that wait for a place in the batch", labels);
  prometheus::Gauge& active = Sessions("active");
  prometheus::Gauge& idle = Sessions("idle");
  prometheus::Gauge& stored = Sessions("stored");
  prometheus::Gauge& cache_budget = Gauge("longstream_cache_budget_bytes",
                                          "Limit of the bytes of the caches of sessions", labels);
  prometheus::Gauge& kv_ratio = Pool("kv");
  prometheus::Gauge& window_ratio = Pool("window");
  prometheus::Gauge& state_ratio = Pool("state");
  prometheus::Gauge& weights = Memory("weights");
  prometheus::Gauge& kv = Memory("kv");
  prometheus::Gauge& window = Memory("window");
  prometheus::Gauge& state = Memory("state");
  prometheus::Gauge& checkpoint = Memory("checkpoint");
  prometheus::Gauge& return_points = Memory("return_point");
  prometheus::Gauge& workspace = Memory("workspace");
  prometheus::Gauge& queued = Gauge("longstream_stream_queued_bytes",
                                    "Bytes generated that readers have not taken", labels);
  prometheus::Counter& prompt =
      Counter("longstream_prompt_tokens_total", "Tokens in the prompts of callers");
  prometheus::Counter& generated =
      Counter("longstream_generated_tokens_total", "Tokens that the model generated");
  prometheus::Counter& reused =
      Counter("longstream_reused_tokens_total", "History tokens that were in the caches");
  prometheus::Counter& from_store = Restored("store");
  prometheus::Counter& from_peer = Restored("peer");
  prometheus::Counter& recomputed =
      Counter("longstream_recomputed_tokens_total", "History tokens that were computed again");
  prometheus::Family<prometheus::Counter>& evictions =
      prometheus::BuildCounter()
          .Name("longstream_session_evictions_total")
          .Help("Idle sessions whose caches were freed, by what needed the memory")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& resumed =
      prometheus::BuildCounter()
          .Name("longstream_turns_resumed_total")
          .Help("Calls that read a turn which another call had started, by how they came to it")
          .Register(registry);
  prometheus::Counter& mismatches =
      Counter("longstream_resume_mismatches_total",
              "Tokens of resumed turns for which the model drew another token than the client had");
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("longstream_requests_total")
          .Help("Turns that ended, by status and finish reason")
          .Register(registry);
  prometheus::Histogram& first_token = Histogram("longstream_time_to_first_token_seconds",
                                                 "Time from a turn's arrival to its first token");
  prometheus::Histogram& inter_token =
      Histogram("longstream_inter_token_latency_seconds", "Time between two tokens of a turn");
  prometheus::Histogram& queue =
      Histogram("longstream_request_queue_seconds",
                "Time from a turn's arrival to its first place in the batch");
  prometheus::Histogram& prefill =
      Histogram("longstream_request_prefill_seconds",
                "Time from a turn's first place in the batch to the end of its prompt");
  prometheus::Histogram& decode =
      Histogram("longstream_request_decode_seconds",
                "Time from the end of a turn's prompt to its last token");
  prometheus::Histogram& end_to_end =
      Histogram("longstream_request_e2e_seconds", "Time from a turn's arrival to its end");
  prometheus::Histogram& session_bytes = Histogram(
      "longstream_session_bytes", "Bytes that a session holds after a turn", ByteBuckets());
  prometheus::Family<prometheus::Gauge>& load = prometheus::BuildGauge()
                                                    .Name("longstream_model_load_seconds")
                                                    .Help("Time to load the model, by phase")
                                                    .Register(registry);
};

ModelMetrics::ModelMetrics(prometheus::Registry* registry, const Labels& labels)
    : families_(std::make_unique<Families>(registry, LabelMap{{"model", labels.model},
                                                              {"version", labels.version},
                                                              {"backend", labels.backend},
                                                              {"device", labels.device}})) {}

ModelMetrics::~ModelMetrics() = default;

void ModelMetrics::Retire() {
  const std::lock_guard lock(families_->mutex);
  for (const auto& [metric, remove] : families_->removals) remove();
  families_->removals.clear();
}

void ModelMetrics::SetRequests(size_t running, size_t waiting, size_t parked) {
  families_->running.Set(static_cast<double>(running));
  families_->waiting.Set(static_cast<double>(waiting));
  families_->parked.Set(static_cast<double>(parked));
}

void ModelMetrics::SetOldestWaiting(double unix_seconds) {
  families_->oldest_waiting.Set(unix_seconds);
}

void ModelMetrics::SetSessions(size_t active, size_t idle) {
  families_->active.Set(static_cast<double>(active));
  families_->idle.Set(static_cast<double>(idle));
}

void ModelMetrics::SetStoredSessions(uint64_t sessions) {
  families_->stored.Set(static_cast<double>(sessions));
}

void ModelMetrics::SetMemory(const Memory& memory) {
  families_->weights.Set(static_cast<double>(memory.weights));
  families_->kv.Set(static_cast<double>(memory.kv));
  families_->window.Set(static_cast<double>(memory.window));
  families_->state.Set(static_cast<double>(memory.state));
  families_->checkpoint.Set(static_cast<double>(memory.checkpoint));
  families_->return_points.Set(static_cast<double>(memory.return_points));
  families_->workspace.Set(static_cast<double>(memory.workspace));
  families_->cache_budget.Set(static_cast<double>(memory.budget));
  families_->kv_ratio.Set(Ratio(memory.kv, memory.budget));
  families_->window_ratio.Set(Ratio(memory.window, memory.budget));
  families_->state_ratio.Set(Ratio(memory.state, memory.budget));
}

void ModelMetrics::SetStreamQueuedBytes(size_t bytes) {
  families_->queued.Set(static_cast<double>(bytes));
}

void ModelMetrics::AddPromptTokens(uint64_t tokens) {
  families_->prompt.Increment(static_cast<double>(tokens));
}
void ModelMetrics::AddGeneratedTokens(uint64_t tokens) {
  families_->generated.Increment(static_cast<double>(tokens));
}
void ModelMetrics::AddReusedTokens(uint64_t tokens) {
  families_->reused.Increment(static_cast<double>(tokens));
}
void ModelMetrics::AddRestoredTokens(uint64_t tokens, bool from_peer) {
  prometheus::Counter& counter = from_peer ? families_->from_peer : families_->from_store;
  counter.Increment(static_cast<double>(tokens));
}

void ModelMetrics::AddRecomputedTokens(uint64_t tokens) {
  families_->recomputed.Increment(static_cast<double>(tokens));
}

void ModelMetrics::CountEviction(std::string_view reason) {
  families_->Add(families_->evictions, families_->With("reason", reason)).Increment();
}

void ModelMetrics::CountResumedTurn(std::string_view how) {
  families_->Add(families_->resumed, families_->With("how", how)).Increment();
}
void ModelMetrics::CountResumeMismatch() { families_->mismatches.Increment(); }

void ModelMetrics::CountRequest(std::string_view code, std::string_view finish_reason) {
  LabelMap labels = families_->With("code", code);
  labels.emplace("finish_reason", finish_reason);
  families_->Add(families_->requests, labels).Increment();
}

void ModelMetrics::ObserveTimeToFirstToken(double seconds) {
  families_->first_token.Observe(seconds);
}
void ModelMetrics::ObserveInterTokenLatency(double seconds) {
  families_->inter_token.Observe(seconds);
}
void ModelMetrics::ObserveQueue(double seconds) { families_->queue.Observe(seconds); }
void ModelMetrics::ObservePrefill(double seconds) { families_->prefill.Observe(seconds); }
void ModelMetrics::ObserveDecode(double seconds) { families_->decode.Observe(seconds); }
void ModelMetrics::ObserveEndToEnd(double seconds) { families_->end_to_end.Observe(seconds); }
void ModelMetrics::ObserveSessionBytes(uint64_t bytes) {
  families_->session_bytes.Observe(static_cast<double>(bytes));
}

void ModelMetrics::ObserveLoad(std::string_view phase, double seconds) {
  families_->Add(families_->load, families_->With("phase", phase)).Set(seconds);
}

}  // namespace longstream
