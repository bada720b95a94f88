// The metrics in Prometheus's text format, compared with the table of docs/metrics.md.
#include "service/metrics/model_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/gateway_metrics.h"
#include "service/load/load_metrics.h"
#include "service/metrics/alias_metrics.h"
#include "service/metrics/build_info.h"
#include "service/metrics/calls/call_metrics.h"
#include "service/metrics/connection_metrics.h"
#include "service/metrics/fleet_metrics.h"
#include "service/metrics/security_metrics.h"
#include "service/metrics/session_metrics.h"
#include "service/metrics/shadow_metrics.h"
#include "service/metrics/store_metrics.h"

namespace longstream {
namespace {

// One line of the text format: name{labels} value.
struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  std::string value;
};

// A metric as docs/metrics.md documents it, or as the text format declares it.
struct Metric {
  std::string kind;
  // The labels, without the label of the model. Only set for metrics of docs/metrics.md.
  std::set<std::string> labels;
};

struct Rendering {
  std::map<std::string, Metric> types;  // # TYPE
  std::vector<Sample> samples;
};

// Works only for label values without quotes and commas, like those of these tests.
Sample ParseSample(const std::string& line) {
  Sample sample;
  const size_t open = line.find('{');
  const size_t space = line.rfind(' ');
  sample.name = line.substr(0, std::min(open, space));
  sample.value = line.substr(space + 1);
  if (open == std::string::npos) return sample;
  std::istringstream labels(line.substr(open + 1, line.rfind('}') - open - 1));
  for (std::string label; std::getline(labels, label, ',');) {
    const size_t equals = label.find('=');
    sample.labels[label.substr(0, equals)] = label.substr(equals + 2, label.size() - equals - 3);
  }
  return sample;
}

Rendering Render(const prometheus::Registry& registry) {
  std::istringstream text(prometheus::TextSerializer().Serialize(registry.Collect()));
  Rendering rendering;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line);
      std::string hash, type, name, kind;
      words >> hash >> type >> name >> kind;
      EXPECT_TRUE(rendering.types.try_emplace(name, Metric{kind, {}}).second) << name << " twice";
    } else if (!line.starts_with("#") && !line.empty()) {
      rendering.samples.push_back(ParseSample(line));
    }
  }
  return rendering;
}

// Rows of the table have the form | `name{label,...}` | kind | meaning |.
std::map<std::string, Metric> DocumentedMetrics() {
  std::ifstream file(LONGSTREAM_SOURCE_DIR "/docs/metrics.md");
  std::map<std::string, Metric> metrics;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `longstream_")) continue;
    const size_t end = line.find('`', 3);
    const std::string column = line.substr(3, end - 3);
    const size_t open = std::min(column.find('{'), column.size());
    Metric metric;
    const size_t kind = end + sizeof("` | ") - 1;
    metric.kind = line.substr(kind, line.find(' ', kind) - kind);
    if (open < column.size()) {
      std::istringstream labels(column.substr(open + 1, column.size() - open - 2));
      for (std::string label; std::getline(labels, label, ',');) metric.labels.insert(label);
    }
    metrics[column.substr(0, open)] = metric;
  }
  return metrics;
}

// The metric to which a sample belongs. Samples of a histogram have one of three suffixes.
std::string MetricOf(const std::string& sample, const std::map<std::string, Metric>& metrics) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    const size_t length = sample.size() - std::min(sample.size(), suffix.size());
    if (!sample.ends_with(suffix)) continue;
    const auto found = metrics.find(sample.substr(0, length));
    if (found != metrics.end() && found->second.kind == "histogram") return found->first;
  }
  return sample;
}

class ModelMetricsTest : public testing::Test {
 protected:
  ModelMetricsTest() { AddBuildInfo(&registry_, "9.9"); }

  // The value of the only sample that has this name and at least these labels.
  std::string Value(const std::string& name, const std::map<std::string, std::string>& labels) {
    std::string value;
    int matches = 0;
    for (const Sample& sample : Render(registry_).samples) {
      if (sample.name != name) continue;
      bool includes = true;
      for (const auto& [label, wanted] : labels) {
        const auto found = sample.labels.find(label);
        includes &= found != sample.labels.end() && found->second == wanted;
      }
      if (!includes) continue;
      value = sample.value;
      ++matches;
    }
    EXPECT_EQ(matches, 1) << name;
    return value;
  }

  prometheus::Registry registry_;
  CallMetrics calls_{&registry_, {}};
  ConnectionMetrics connections_{&registry_, "grpc"};
  gateway::GatewayMetrics gateway_{&registry_};
  SecurityMetrics security_{&registry_};
  FleetMetrics fleet_{&registry_};
  LoadMetrics load_{&registry_};
  SessionMetrics sessions_{&registry_, 4096};
  StoreMetrics store_{&registry_};
  ArmMetrics arm_{&registry_, "chat", "m"};
  ShadowMetrics shadows_{&registry_};
  ModelMetrics metrics_{&registry_, {"m", "v2", "dense", "cpu"}};
};

TEST_F(ModelMetricsTest, ExactlyTheDocumentedOnesWithTheirKindsAndLabels) {
  calls_.Count("/a.Service/Call", absl::StatusCode::kUnimplemented);
  gateway_.CountRequest("/v1/models", 200, absl::Seconds(1));
  gateway_.CountTurn("new", 2, 1);
  metrics_.CountRequest("OK", "max_tokens");
  metrics_.CountEviction("turn");
  metrics_.CountResumedTurn("attached");
  metrics_.CountResumeMismatch();
  metrics_.ObserveLoad("backend", 1.5);
  arm_.CountSession("OK");
  arm_.CountRouted("least_time");
  arm_.CountRequest("OK", "max_tokens");
  shadows_.AddTurn("m", "n", std::vector<double>{0.1}, 1);
  shadows_.CountDrop("m", "n", "full");
  store_.SetBytes("log", 1);
  store_.CountError("UNKNOWN");
  security_.CountReload("tls", true);
  security_.CountRefused("UNAUTHENTICATED");
  security_.SetCertificateExpiry("grpc", absl::UnixEpoch());
  fleet_.CountClaim();
  fleet_.CountHandover("taken");
  fleet_.CountLostCaches("sent", "evicted");
  fleet_.ObserveHandover(absl::Seconds(1));
  fleet_.CountFencedCommit();
  fleet_.SetSessions(1);
  fleet_.SetToHandOver(1);
  fleet_.SetLeaseLeft(absl::Seconds(1));
  sessions_.CountTransfer("export", "OK", 1);
  sessions_.CountRestore("store", "ok");
  sessions_.CountRestore("peer", "ok");
  sessions_.CountSave("ok");
  sessions_.ObserveSnapshot("read", 1, absl::Seconds(1));
  sessions_.SetTenant("acme", {.refusals = {{"turns", 1}}});
  const std::map<std::string, Metric> documented = DocumentedMetrics();
  ASSERT_GE(documented.size(), 20u);
  const Rendering rendering = Render(registry_);

  std::map<std::string, std::set<std::string>> labels_seen;
  for (const Sample& sample : rendering.samples) {
    const std::string name = MetricOf(sample.name, documented);
    const auto found = documented.find(name);
    ASSERT_NE(found, documented.end()) << sample.name << " is not in docs/metrics.md";
    std::set<std::string> names;
    for (const auto& [label, value] : sample.labels) names.insert(label);
    names.erase("le");
    std::set<std::string> expected = found->second.labels;
    if (name != "longstream_build_info" && !name.starts_with("longstream_alias_") &&
        !name.starts_with("longstream_connections") && !name.starts_with("longstream_calls_") &&
        !name.starts_with("longstream_compare_") && !name.starts_with("longstream_shadow_") &&
        !name.starts_with("longstream_certificate_") && !name.starts_with("longstream_fleet_") &&
        !name.starts_with("longstream_claims_") && !name.starts_with("longstream_handover") &&
        !name.starts_with("longstream_fenced_") && !name.starts_with("longstream_http_") &&
        !name.starts_with("longstream_security_") && !name.starts_with("longstream_load_") &&
        !name.starts_with("longstream_process_") &&
        !name.starts_with("longstream_sessions_lost_") &&
        !name.starts_with("longstream_session_early_") &&
        !name.starts_with("longstream_session_host_") &&
        !name.starts_with("longstream_session_restores") &&
        !name.starts_with("longstream_session_saves") &&
        !name.starts_with("longstream_session_transfer") &&
        !name.starts_with("longstream_snapshot_") && !name.starts_with("longstream_store_") &&
        !name.starts_with("longstream_tenant_")) {
      expected.insert({"model", "version", "backend", "device"});
      EXPECT_EQ(sample.labels.at("model"), "m");
      EXPECT_EQ(sample.labels.at("version"), "v2");
      EXPECT_EQ(sample.labels.at("backend"), "dense");
      EXPECT_EQ(sample.labels.at("device"), "cpu");
    }
    EXPECT_EQ(names, expected) << sample.name;
    labels_seen[name].insert(names.begin(), names.end());
  }
  for (const auto& [name, metric] : documented) {
    EXPECT_TRUE(labels_seen.contains(name)) << name << " is documented but not exported";
    const auto type = rendering.types.find(name);
    ASSERT_NE(type, rendering.types.end()) << name;
    EXPECT_EQ(type->second.kind, metric.kind) << name;
  }
}

TEST_F(ModelMetricsTest, Tenants) {
  sessions_.SetTenant("acme", {1, 20, 300, 4, 50, {{"turns", 6}}});
  sessions_.SetTenant("acme", {2, 30, 400, 5, 60, {{"turns", 7}}});
  sessions_.SetTenant("other", {.sessions = 9});
  const std::map<std::string, std::string> acme = {{"tenant", "acme"}};
  EXPECT_EQ(Value("longstream_tenant_sessions", acme), "2");
  EXPECT_EQ(Value("longstream_tenant_sessions", {{"tenant", "other"}}), "9");
  EXPECT_EQ(Value("longstream_tenant_bytes", {{"tenant", "acme"}, {"kind", "host"}}), "30");
  EXPECT_EQ(Value("longstream_tenant_bytes", {{"tenant", "acme"}, {"kind", "cache"}}), "400");
  EXPECT_EQ(Value("longstream_tenant_turns", acme), "5");
  EXPECT_EQ(Value("longstream_tenant_tokens_total", acme), "60");
  EXPECT_EQ(Value("longstream_tenant_refusals_total", {{"tenant", "acme"}, {"quota", "turns"}}),
            "7");
}

TEST_F(ModelMetricsTest, TheStore) {
  EXPECT_EQ(Value("longstream_store_state", {}), "0");
  store_.SetState(StoreStateMetric::kReadOnly);
  EXPECT_EQ(Value("longstream_store_state", {}), "2");
  store_.SetBytes("log", 7);
  store_.SetBytes("log", 5);
  EXPECT_EQ(Value("longstream_store_bytes", {{"kind", "log"}}), "5");
  store_.ObserveCommit(absl::Milliseconds(3));
  EXPECT_EQ(Value("longstream_store_commit_seconds_bucket", {{"le", "0.002"}}), "0");
  EXPECT_EQ(Value("longstream_store_commit_seconds_bucket", {{"le", "0.005"}}), "1");
  store_.CountError("UNKNOWN");
  store_.CountError("UNKNOWN");
  EXPECT_EQ(Value("longstream_store_errors_total", {{"code", "UNKNOWN"}}), "2");
}

TEST_F(ModelMetricsTest, CredentialsAndCertificates) {
  security_.CountReload("tls", true);
  security_.CountReload("tls", false);
  security_.CountReload("tls", false);
  EXPECT_EQ(Value("longstream_security_reloads_total", {{"outcome", "taken"}}), "1");
  EXPECT_EQ(Value("longstream_security_reloads_total", {{"outcome", "refused"}}), "2");
  security_.SetCertificateExpiry("grpc", absl::FromUnixSeconds(5));
  EXPECT_EQ(Value("longstream_certificate_expiry_seconds", {{"port", "grpc"}}), "5");
}

TEST_F(ModelMetricsTest, ConnectionsByPortAndReason) {
  ConnectionMetrics other(&registry_, "metrics");
  connections_.SetOpen(9);
  connections_.SetOpen(7);
  for (int i = 0; i < 12; ++i) connections_.CountAccepted();
  connections_.CountRefused(RefusedConnection::kTotal);
  connections_.CountRefused(RefusedConnection::kPeer);
  connections_.CountRefused(RefusedConnection::kPeer);
  connections_.CountRefused(RefusedConnection::kDescriptors);
  for (int i = 0; i < 3; ++i) connections_.CountRefused(RefusedConnection::kTimeout);
  for (int i = 0; i < 4; ++i) connections_.CountRefused(RefusedConnection::kProtocol);
  EXPECT_EQ(Value("longstream_connections", {{"port", "grpc"}}), "7");
  EXPECT_EQ(Value("longstream_connections_accepted_total", {{"port", "grpc"}}), "12");
  const auto refused = [this](const char* reason) {
    return Value("longstream_connections_refused_total", {{"port", "grpc"}, {"reason", reason}});
  };
  EXPECT_EQ(refused("total"), "1");
  EXPECT_EQ(refused("peer"), "2");
  EXPECT_EQ(refused("descriptors"), "1");
  EXPECT_EQ(refused("timeout"), "3");
  EXPECT_EQ(refused("protocol"), "4");
  EXPECT_EQ(Value("longstream_connections", {{"port", "metrics"}}), "0");
  EXPECT_EQ(
      Value("longstream_connections_refused_total", {{"port", "metrics"}, {"reason", "protocol"}}),
      "0");
}

TEST_F(ModelMetricsTest, GaugesHaveTheLastValue) {
  metrics_.SetRequests(9, 9, 9);
  metrics_.SetRequests(3, 4, 2);
  metrics_.SetOldestWaiting(1e9);
  metrics_.SetSessions(5, 6);
  EXPECT_EQ(Value("longstream_sessions", {{"state", "stored"}}), "0");
  metrics_.SetStoredSessions(70);
  metrics_.SetStreamQueuedBytes(7);
  metrics_.SetMemory({1, 20, 30, 40, 50, 60, 80});
  metrics_.ObserveLoad("backend", 1.5);
  metrics_.ObserveLoad("tokenizer", 0.25);
  EXPECT_EQ(Value("longstream_requests_running", {}), "3");
  EXPECT_EQ(Value("longstream_requests_waiting", {}), "4");
  EXPECT_EQ(Value("longstream_requests_parked", {}), "2");
  EXPECT_EQ(Value("longstream_oldest_waiting_timestamp_seconds", {}), "1000000000");
  EXPECT_EQ(Value("longstream_sessions", {{"state", "active"}}), "5");
  EXPECT_EQ(Value("longstream_sessions", {{"state", "idle"}}), "6");
  EXPECT_EQ(Value("longstream_sessions", {{"state", "stored"}}), "70");
  EXPECT_EQ(Value("longstream_stream_queued_bytes", {}), "7");
  EXPECT_EQ(Value("longstream_memory_bytes", {{"kind", "weights"}}), "1");
  EXPECT_EQ(Value("longstream_memory_bytes", {{"kind", "kv"}}), "20");
  EXPECT_EQ(Value("longstream_memory_bytes", {{"kind", "window"}}), "30");
  EXPECT_EQ(Value("longstream_memory_bytes", {{"kind", "state"}}), "40");
  EXPECT_EQ(Value("longstream_memory_bytes", {{"kind", "checkpoint"}}), "50");
  EXPECT_EQ(Value("longstream_memory_bytes", {{"kind", "workspace"}}), "60");
  EXPECT_EQ(Value("longstream_cache_budget_bytes", {}), "80");
  EXPECT_EQ(Value("longstream_cache_usage_ratio", {{"pool", "kv"}}), "0.25");
  EXPECT_EQ(Value("longstream_cache_usage_ratio", {{"pool", "window"}}), "0.375");
  EXPECT_EQ(Value("longstream_cache_usage_ratio", {{"pool", "state"}}), "0.5");
  EXPECT_EQ(Value("longstream_model_load_seconds", {{"phase", "backend"}}), "1.5");
  EXPECT_EQ(Value("longstream_model_load_seconds", {{"phase", "tokenizer"}}), "0.25");
  EXPECT_EQ(Value("longstream_build_info", {{"version", "9.9"}}), "1");

  metrics_.SetMemory({1, 20, 30, 40, 50, 60, 0});
  EXPECT_EQ(Value("longstream_cache_usage_ratio", {{"pool", "kv"}}), "0");
}

TEST_F(ModelMetricsTest, SessionsOfAllModels) {
  EXPECT_EQ(Value("longstream_session_host_bytes", {}), "0");
  sessions_.SetHostBytes(77);
  EXPECT_EQ(Value("longstream_session_host_bytes", {}), "77");
  EXPECT_EQ(Value("longstream_session_host_limit_bytes", {}), "4096");
  sessions_.CountLost();
  EXPECT_EQ(Value("longstream_sessions_lost_total", {}), "1");
  sessions_.CountEarlyRelease("quota");
  EXPECT_EQ(Value("longstream_session_early_releases_total", {{"reason", "quota"}}), "1");
  sessions_.CountTransfer("export", "OK", 500);
  sessions_.CountTransfer("export", "CANCELLED", 20);
  EXPECT_EQ(Value("longstream_session_transfers_total", {{"op", "export"}, {"code", "OK"}}), "1");
  EXPECT_EQ(Value("longstream_session_transfer_bytes_total", {{"op", "export"}}), "520");
  sessions_.CountSave("full");
  EXPECT_EQ(Value("longstream_session_saves_total", {{"outcome", "full"}}), "1");
  sessions_.CountRestore("store", "damaged");
  EXPECT_EQ(Value("longstream_session_restores_total", {{"from", "store"}, {"outcome", "damaged"}}),
            "1");
  sessions_.CountRestore("peer", "no_memory");
  EXPECT_EQ(
      Value("longstream_session_restores_total", {{"from", "peer"}, {"outcome", "no_memory"}}),
      "1");
  sessions_.ObserveSnapshot("write", 300, absl::Milliseconds(2));
  EXPECT_EQ(Value("longstream_snapshot_bytes_total", {{"op", "write"}}), "300");
  EXPECT_EQ(Value("longstream_snapshot_seconds_count", {{"op", "write"}}), "1");
}

TEST_F(ModelMetricsTest, CountersAddUp) {
  metrics_.AddPromptTokens(1);
  metrics_.AddPromptTokens(2);
  metrics_.AddGeneratedTokens(5);
  metrics_.AddReusedTokens(6);
  metrics_.AddRestoredTokens(8, /*from_peer=*/false);
  metrics_.AddRestoredTokens(9, /*from_peer=*/true);
  metrics_.AddRecomputedTokens(7);
  metrics_.CountRequest("OK", "stop_token");
  metrics_.CountRequest("OK", "stop_token");
  metrics_.CountRequest("CANCELLED", "");
  metrics_.CountEviction("turn");
  metrics_.CountEviction("turn");
  metrics_.CountEviction("open");
  EXPECT_EQ(Value("longstream_session_evictions_total", {{"reason", "turn"}}), "2");
  EXPECT_EQ(Value("longstream_session_evictions_total", {{"reason", "open"}}), "1");
  EXPECT_EQ(Value("longstream_prompt_tokens_total", {}), "3");
  EXPECT_EQ(Value("longstream_generated_tokens_total", {}), "5");
  EXPECT_EQ(Value("longstream_reused_tokens_total", {}), "6");
  EXPECT_EQ(Value("longstream_restored_tokens_total", {{"from", "store"}}), "8");
  EXPECT_EQ(Value("longstream_restored_tokens_total", {{"from", "peer"}}), "9");
  EXPECT_EQ(Value("longstream_recomputed_tokens_total", {}), "7");
  EXPECT_EQ(Value("longstream_requests_total", {{"code", "OK"}, {"finish_reason", "stop_token"}}),
            "2");
  EXPECT_EQ(Value("longstream_requests_total", {{"code", "CANCELLED"}, {"finish_reason", ""}}),
            "1");
}

TEST_F(ModelMetricsTest, HistogramsHoldWhatWasObserved) {
  metrics_.ObserveTimeToFirstToken(0.5);
  metrics_.ObserveInterTokenLatency(1.5);
  metrics_.ObserveQueue(2.5);
  metrics_.ObservePrefill(3.5);
  metrics_.ObserveDecode(4.5);
  metrics_.ObserveEndToEnd(5.5);
  metrics_.ObserveSessionBytes(5000);
  metrics_.ObserveSessionBytes(100);
  EXPECT_EQ(Value("longstream_time_to_first_token_seconds_sum", {}), "0.5");
  EXPECT_EQ(Value("longstream_inter_token_latency_seconds_sum", {}), "1.5");
  EXPECT_EQ(Value("longstream_request_queue_seconds_sum", {}), "2.5");
  EXPECT_EQ(Value("longstream_request_prefill_seconds_sum", {}), "3.5");
  EXPECT_EQ(Value("longstream_request_decode_seconds_sum", {}), "4.5");
  EXPECT_EQ(Value("longstream_request_e2e_seconds_sum", {}), "5.5");
  EXPECT_EQ(Value("longstream_session_bytes_sum", {}), "5100");
  EXPECT_EQ(Value("longstream_session_bytes_count", {}), "2");
  EXPECT_EQ(Value("longstream_session_bytes_bucket", {{"le", "4096"}}), "1");
  EXPECT_EQ(Value("longstream_session_bytes_bucket", {{"le", "16384"}}), "2");
  EXPECT_EQ(Value("longstream_request_e2e_seconds_bucket", {{"le", "5"}}), "0");
  EXPECT_EQ(Value("longstream_request_e2e_seconds_bucket", {{"le", "10"}}), "1");
}

TEST_F(ModelMetricsTest, AModelThatIsGoneHasNoMetrics) {
  ModelMetrics other(&registry_, {"n", "1", "minimal", "cpu"});
  for (ModelMetrics* metrics : {&metrics_, &other}) {
    metrics->SetRequests(1, 0, 0);
    metrics->CountRequest("OK", "stop_token");
    metrics->CountRequest("OK", "stop_token");
    metrics->CountEviction("turn");
    metrics->CountResumedTurn("attached");
    metrics->ObserveLoad("backend", 1);
    metrics->ObservePrefill(1);
  }
  other.Retire();
  size_t of_m = 0;
  for (const prometheus::MetricFamily& family : registry_.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const auto& label : metric.label) {
        EXPECT_FALSE(label.name == "model" && label.value == "n") << family.name;
        of_m += label.name == "model" && label.value == "m" ? 1 : 0;
      }
    }
  }
  EXPECT_GT(of_m, 20u);
  EXPECT_EQ(Value("longstream_requests_total", {{"model", "m"}}), "2");
}

TEST_F(ModelMetricsTest, ModelsShareARegistry) {
  ModelMetrics other(&registry_, {"n", "1", "minimal", "cpu"});
  metrics_.SetRequests(1, 0, 0);
  other.SetRequests(2, 0, 0);
  EXPECT_EQ(Value("longstream_requests_running", {{"model", "m"}}), "1");
  EXPECT_EQ(Value("longstream_requests_running", {{"model", "n"}}), "2");
}

}  // namespace
}  // namespace longstream
