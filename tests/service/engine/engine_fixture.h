// A served minimal model for tests of the engine, and turns that are waited for.
#ifndef LONGSTREAM_TESTS_SERVICE_ENGINE_ENGINE_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_ENGINE_ENGINE_FIXTURE_H_

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn.h"
#include "service/models/host.h"

namespace prometheus {
class Registry;
struct ClientMetric;
}  // namespace prometheus

namespace longstream {

// The plugin, a host on the calling thread alone, and a model directory that is removed at the end.
class MinimalModel {
 public:
  // The minimal backend's file, or what the environment variable LONGSTREAM_MINIMAL_PLUGIN names in
  // its place: ctest runs the same tests once more on asynchronous_minimal.
  static std::string PluginFile();

  // `plugin`: the minimal backend's file, or one that behaves like it but for a defect.
  // `tokenizer_json` empty: plain bytes. `chat_template` empty: none.
  explicit MinimalModel(const std::string& plugin = PluginFile(),
                        const std::string& tokenizer_json = "",
                        const std::string& chat_template = "");
  ~MinimalModel();
  MinimalModel(const MinimalModel&) = delete;
  MinimalModel& operator=(const MinimalModel&) = delete;

  const Host* host() const { return &host_; }
  const std::vector<std::shared_ptr<const Plugin>>& plugins() const { return plugins_; }
  prometheus::Registry* registry() { return registry_.get(); }
  const std::filesystem::path& directory() const { return directory_; }

  // Of the metric `name`, those whose label has this value.
  std::vector<prometheus::ClientMetric> Samples(const std::string& name, const std::string& label,
                                                const std::string& value) const;
  // Of longstream_requests_total, over all finish reasons.
  double RequestsCounted(const std::string& code) const;

  // A source with these backend options and cache budget.
  ModelSource Source(const std::string& options_json = "{}", uint64_t cache_bytes = 0) const;

 private:
  std::filesystem::path directory_;
  Host host_;
  std::vector<std::shared_ptr<const Plugin>> plugins_;
  std::unique_ptr<prometheus::Registry> registry_;
};

// A turn's request with its session, for tests that talk to the engine without the session manager.
struct SessionTurnRequest : TurnRequest {
  std::shared_ptr<Session> session;  // kScore: none
};

class SessionTurn : public Turn {
 public:
  explicit SessionTurn(const SessionTurnRequest& made) : Turn(made), session(made.session) {}

  const std::shared_ptr<Session> session;
};

// Takes the session's lease and starts the turn.
absl::Status Start(Engine& engine, const std::shared_ptr<SessionTurn>& turn);

// A plugin and a model directory that it serves; empty: the minimal model's.
struct TestModel {
  std::string plugin = MinimalModel::PluginFile();
  std::string directory{};
};

// An engine over a minimal model, or over another one.
class TestEngine {
 public:
  explicit TestEngine(const std::string& options_json = "{}", uint64_t cache_bytes = 0,
                      Engine::Options options = {}, const TestModel& model = {});

  Engine* operator->() { return engine_.get(); }
  Engine& operator*() { return *engine_; }
  const MinimalModel& model() const { return model_; }

  absl::Status Start(const std::shared_ptr<SessionTurn>& turn) {
    return longstream::Start(*engine_, turn);
  }

  // A session that has not been opened.
  TurnLease NewSession(SessionId id) const;
  // A session with caches; fails the test where there is no room. From any thread.
  std::shared_ptr<Session> Open();
  absl::StatusOr<std::shared_ptr<Session>> TryOpen();

 private:
  MinimalModel model_;
  std::unique_ptr<ModelMetrics> metrics_;
  std::unique_ptr<Engine> engine_;
  std::atomic<uint64_t> next_id_{1};
};

// What a turn gave, all events put together.
struct Outcome {
  TurnEnd end;
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<TokenLogProb> log_probs;
  std::vector<TokenLogProb> scores;
  uint64_t prefill_events = 0;
};

// The session's state; its turn must be free.
SessionState StateOf(const std::shared_ptr<Session>& session);
// Copies a session and waits for the answer.
absl::Status Fork(Engine& engine, const std::shared_ptr<Session>& source, TurnLease target);

// Starts the turn and reads it to its end. A refusal is the outcome's status.
Outcome RunTurn(Engine& engine, const std::shared_ptr<SessionTurn>& turn);
// Reads a turn that was started to its end.
Outcome ReadToEnd(Turn& turn);

// Sampling with this seed at temperature 1, so that every token matters.
SessionTurnRequest Generate(std::shared_ptr<Session> session, std::string_view prompt,
                            uint64_t max_tokens, uint64_t seed = 1);

std::vector<int32_t> Bytes(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_ENGINE_ENGINE_FIXTURE_H_
