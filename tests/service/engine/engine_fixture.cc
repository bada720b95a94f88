// Loads the minimal plugin, and runs turns to their end.
#include "tests/service/engine/engine_fixture.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

std::filesystem::path NewDirectory() {
  static std::atomic<int> count = 0;
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("longstream_minimal_" + std::to_string(getpid()) + "_" + std::to_string(count++));
  std::filesystem::create_directories(path);
  std::ofstream(path / "config.json") << R"({"model_type": "minimal"})";
  return path;
}

}  // namespace

std::string MinimalModel::PluginFile() {
  const char* other = std::getenv("LONGSTREAM_MINIMAL_PLUGIN");
  return other != nullptr ? other : LONGSTREAM_PLUGIN_DIR "/minimal.cpu.so";
}

MinimalModel::MinimalModel(const std::string& path, const std::string& tokenizer_json,
                           const std::string& chat_template)
    : directory_(NewDirectory()),
      host_(Executor{}, nullptr),
      registry_(std::make_unique<prometheus::Registry>()) {
  auto plugin = Plugin::Load(path);
  if (!plugin.ok()) throw std::runtime_error(plugin.status().ToString());
  plugins_.push_back(*std::move(plugin));
  if (!tokenizer_json.empty()) std::ofstream(directory_ / "tokenizer.json") << tokenizer_json;
  if (!chat_template.empty()) std::ofstream(directory_ / "chat_template.jinja") << chat_template;
}

MinimalModel::~MinimalModel() { std::filesystem::remove_all(directory_); }

std::vector<prometheus::ClientMetric> MinimalModel::Samples(const std::string& name,
                                                            const std::string& label,
                                                            const std::string& value) const {
  std::vector<prometheus::ClientMetric> samples;
  for (const prometheus::MetricFamily& family : registry_->Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const prometheus::ClientMetric::Label& found : metric.label) {
        if (found.name == label && found.value == value) samples.push_back(metric);
      }
    }
  }
  return samples;
}

double MinimalModel::RequestsCounted(const std::string& code) const {
  double count = 0;
  for (const auto& metric : Samples("longstream_requests_total", "code", code)) {
    count += metric.counter.value;
  }
  return count;
}

double MinimalModel::EvictionsCounted(const std::string& reason) const {
  double count = 0;
  for (const auto& metric : Samples("longstream_session_evictions_total", "reason", reason)) {
    count += metric.counter.value;
  }
  return count;
}

ModelSource MinimalModel::Source(const std::string& options_json, uint64_t cache_bytes) const {
  ModelSource source;
  source.name = "m";
  source.directory = directory_.string();
  source.options_json = options_json;
  source.cache_bytes_budget = cache_bytes;
  return source;
}

TestEngine::TestEngine(const std::string& options_json, uint64_t cache_bytes,
                       Engine::Options options, const TestModel& model)
    : model_(model.plugin) {
  ModelSource source = model_.Source(options_json, cache_bytes);
  if (!model.directory.empty()) source.directory = model.directory;
  source.max_batch_tokens = options.max_batch_tokens;
  source.max_batch_sequences = options.max_batch_sequences;
  auto served = ServedModel::Load(source, model_.plugins(), model_.host());
  if (!served.ok()) throw std::runtime_error(served.status().ToString());
  metrics_ = std::make_unique<ModelMetrics>(model_.registry(),
                                            ModelMetrics::Labels{"m", "1", "minimal", "cpu"});
  engine_ = std::make_unique<Engine>(*served, options, metrics_.get());
}

TurnLease TestEngine::NewSession(SessionId id, std::shared_ptr<Tenant> tenant) const {
  const ServedModel& served = engine_->model();
  return TurnLease::OfNewSession(id, served.name(), served.backend().info().context_limit,
                                 absl::InfiniteDuration(), /*host_memory=*/nullptr,
                                 std::move(tenant));
}

absl::StatusOr<std::shared_ptr<Session>> TestEngine::TryOpen(std::shared_ptr<Tenant> tenant) {
  TurnLease lease = NewSession(SessionId{0, next_id_++}, std::move(tenant));
  const std::shared_ptr<Session> session = lease.session();
  absl::Notification done;
  absl::Status status;
  engine_->Open(std::move(lease), [&](absl::Status opened) {
    status = std::move(opened);
    done.Notify();
  });
  done.WaitForNotification();
  if (!status.ok()) return status;
  return session;
}

std::shared_ptr<Session> TestEngine::Open(std::shared_ptr<Tenant> tenant) {
  auto session = TryOpen(std::move(tenant));
  EXPECT_TRUE(session.ok()) << session.status();
  return *session;
}

absl::Status Start(Engine& engine, const std::shared_ptr<SessionTurn>& turn) {
  if (turn->session == nullptr) {
    const ServedModel& model = engine.model();
    return engine.Start(turn, TurnLease::OfNewSession(SessionId{}, model.name(),
                                                      model.backend().info().context_limit,
                                                      absl::InfiniteDuration()));
  }
  absl::StatusOr<TurnLease> lease = TurnLease::Take(turn->session);
  if (!lease.ok()) return lease.status();
  return engine.Start(turn, *std::move(lease));
}

Outcome ReadToEnd(Turn& turn) {
  Outcome outcome;
  while (true) {
    TurnStream::Item item = turn.stream.Next();
    if (auto* end = std::get_if<TurnEnd>(&item)) {
      outcome.end = std::move(*end);
      return outcome;
    }
    const auto* event = std::get_if<TurnEvent>(&item);
    if (event == nullptr) {
      absl::SleepFor(absl::Microseconds(100));
    } else if (const auto* delta = std::get_if<DeltaEvent>(event)) {
      outcome.text += delta->text;
      outcome.tokens.insert(outcome.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      outcome.log_probs.insert(outcome.log_probs.end(), delta->log_probs.begin(),
                               delta->log_probs.end());
      turn.stream.Delivered(delta->position);
    } else if (const auto* score = std::get_if<ScoreEvent>(event)) {
      outcome.scores.insert(outcome.scores.end(), score->tokens.begin(), score->tokens.end());
    } else if (std::holds_alternative<PrefillEvent>(*event)) {
      ++outcome.prefill_events;
    }
  }
}

void CancelAll(Engine& engine, const std::vector<std::shared_ptr<SessionTurn>>& turns) {
  for (const auto& turn : turns) turn->Cancel();
  engine.Wake();
  for (const auto& turn : turns) ReadToEnd(*turn);
}

SessionState StateOf(const std::shared_ptr<Session>& session) {
  const absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
  EXPECT_TRUE(lease.ok()) << lease.status();
  return lease.ok() ? lease->state() : SessionState();
}

absl::Status Fork(Engine& engine, const std::shared_ptr<Session>& source, TurnLease target) {
  absl::StatusOr<TurnLease> lease = TurnLease::Take(source);
  if (!lease.ok()) return lease.status();
  absl::Notification done;
  absl::Status status;
  engine.Fork(*std::move(lease), std::move(target), [&](absl::Status forked) {
    status = std::move(forked);
    done.Notify();
  });
  done.WaitForNotification();
  return status;
}

Outcome RunTurn(Engine& engine, const std::shared_ptr<SessionTurn>& turn) {
  const absl::Status status = Start(engine, turn);
  if (status.ok()) return ReadToEnd(*turn);
  Outcome outcome;
  outcome.end.status = status;
  return outcome;
}

SessionTurnRequest Generate(std::shared_ptr<Session> session, std::string_view prompt,
                            uint64_t max_tokens, uint64_t seed) {
  SessionTurnRequest request;
  request.session = std::move(session);
  request.prompt = Bytes(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 1.0f;
  request.sampling.seed = seed;
  return request;
}

std::vector<int32_t> Bytes(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace longstream
