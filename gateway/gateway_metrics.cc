#include "gateway/gateway_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace longstream::gateway {
namespace {

// In seconds: of lists of models as well as of long answers.
prometheus::Histogram::BucketBoundaries Bounds() {
  return {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};
}

}  // namespace

struct GatewayMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : requests(prometheus::BuildCounter()
                     .Name("longstream_http_requests_total")
                     .Help("Requests of HTTP that were answered")
                     .Register(*registry)),
        seconds(prometheus::BuildHistogram()
                    .Name("longstream_http_request_seconds")
                    .Help("Time from a request of HTTP to the end of its answer")
                    .Register(*registry)),
        turns(prometheus::BuildCounter()
                  .Name("longstream_http_turns_total")
                  .Help("Turns of HTTP clients by how their session was found")
                  .Register(*registry)),
        tokens(prometheus::BuildCounter()
                   .Name("longstream_http_prompt_tokens_total")
                   .Help("Tokens of prompts of HTTP clients: computed, or cached in a session")
                   .Register(*registry)),
        computed(tokens.Add({{"kind", "computed"}})),
        cached(tokens.Add({{"kind", "cached"}})),
        notes(prometheus::BuildCounter()
                  .Name("longstream_http_notes_total")
                  .Help("Attempts to note where other gateways find a conversation")
                  .Register(*registry)),
        written_notes(notes.Add({{"outcome", "ok"}})),
        failed_notes(notes.Add({{"outcome", "failed"}})),
        sessions(prometheus::BuildGauge()
                     .Name("longstream_http_sessions")
                     .Help("Sessions that the gateway keeps for conversations of HTTP clients")
                     .Register(*registry)
                     .Add({})) {}

  prometheus::Family<prometheus::Counter>& requests;
  prometheus::Family<prometheus::Histogram>& seconds;
  prometheus::Family<prometheus::Counter>& turns;
  prometheus::Family<prometheus::Counter>& tokens;
  prometheus::Counter& computed;
  prometheus::Counter& cached;
  prometheus::Family<prometheus::Counter>& notes;
  prometheus::Counter& written_notes;
  prometheus::Counter& failed_notes;
  prometheus::Gauge& sessions;
};

GatewayMetrics::GatewayMetrics(prometheus::Registry* registry)
    : connections_(registry, "http"), families_(std::make_unique<Families>(registry)) {}

GatewayMetrics::~GatewayMetrics() = default;

void GatewayMetrics::CountRequest(const std::string& route, int status, absl::Duration time) {
  families_->requests.Add({{"route", route}, {"code", std::to_string(status)}}).Increment();
  families_->seconds.Add({{"route", route}}, Bounds()).Observe(absl::ToDoubleSeconds(time));
}

void GatewayMetrics::CountTurn(const std::string& session, uint64_t prompt_tokens,
                               uint64_t cached_tokens) {
  families_->turns.Add({{"session", session}}).Increment();
  families_->computed.Increment(static_cast<double>(prompt_tokens - cached_tokens));
  families_->cached.Increment(static_cast<double>(cached_tokens));
}

void GatewayMetrics::CountNotes(bool written) {
  (written ? families_->written_notes : families_->failed_notes).Increment();
}

void GatewayMetrics::SetSessions(size_t sessions) {
  families_->sessions.Set(static_cast<double>(sessions));
}

}  // namespace longstream::gateway
