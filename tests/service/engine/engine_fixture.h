// A served minimal model for tests of the engine, and functions that wait for turns.
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

// The plugin, a host that uses only the calling thread, and a model directory, which the destructor
// removes.
class MinimalModel {
 public:
  // The minimal backend's file, unless the environment variable LONGSTREAM_MINIMAL_PLUGIN names
  // another one: ctest runs the same tests a second time on asynchronous_minimal.
  static std::string PluginFile();

  // `plugin`: the minimal backend's file, or one that behaves like it except for a defect.
  // `tokenizer_json`: empty for a tokenizer of plain bytes. `chat_template`: empty for none.
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

  // The samples of the metric `name` on which the label has this value.
  std::vector<prometheus::ClientMetric> Samples(const std::string& name, const std::string& label,
                                                const std::string& value) const;
  // The sum of longstream_requests_total with this code, over all finish reasons.
  double RequestsCounted(const std::string& code) const;
  // longstream_session_evictions_total with this reason.
  double EvictionsCounted(const std::string& reason) const;

  // The model's source, with these backend options and this cache budget.
  ModelSource Source(const std::string& options_json = "{}", uint64_t cache_bytes = 0) const;

 private:
  std::filesystem::path directory_;
  Host host_;
  std::vector<std::shared_ptr<const Plugin>> plugins_;
  std::unique_ptr<prometheus::Registry> registry_;
};

// A turn's request together with its session, for tests that use the engine without a session
// manager.
struct SessionTurnRequest : TurnRequest {
  std::shared_ptr<Session> session;  // nullptr for kScore
};

class SessionTurn : public Turn {
 public:
  explicit SessionTurn(const SessionTurnRequest& made) : Turn(made), session(made.session) {}

  const std::shared_ptr<Session> session;
};

inline std::shared_ptr<SessionTurn> MakeTurn(const SessionTurnRequest& request) {
  return std::make_shared<SessionTurn>(request);
}

// Takes the session's lease and starts the turn.
absl::Status Start(Engine& engine, const std::shared_ptr<SessionTurn>& turn);

// A plugin, and the directory of a model that the plugin serves. An empty directory means the
// directory of the minimal model.
struct TestModel {
  std::string plugin = MinimalModel::PluginFile();
  std::string directory{};
};

// An engine for the minimal model or for another one.
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

  // A new session that has not been opened in the engine. `tenant`: whose session it is.
  TurnLease NewSession(SessionId id, std::shared_ptr<Tenant> tenant = nullptr) const;
  // Opens a session with caches. Fails the test if there is no memory. May be called from any
  // thread.
  std::shared_ptr<Session> Open(std::shared_ptr<Tenant> tenant = nullptr);
  absl::StatusOr<std::shared_ptr<Session>> TryOpen(std::shared_ptr<Tenant> tenant = nullptr);

 private:
  MinimalModel model_;
  std::unique_ptr<ModelMetrics> metrics_;
  std::unique_ptr<Engine> engine_;
  std::atomic<uint64_t> next_id_{1};
};

// The results of a turn: all its events put together.
struct Outcome {
  TurnEnd end;
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<TokenLogProb> log_probs;
  std::vector<TokenLogProb> scores;
  uint64_t prefill_events = 0;
};

// The session's state. REQUIRES: no turn of the session is running.
SessionState StateOf(const std::shared_ptr<Session>& session);
// Copies a session and waits for the answer.
absl::Status Fork(Engine& engine, const std::shared_ptr<Session>& source, TurnLease target);

// Starts the turn and reads it to its end. If the turn is refused, the outcome has the refusal's
// status.
Outcome RunTurn(Engine& engine, const std::shared_ptr<SessionTurn>& turn);
// Reads a started turn to its end.
Outcome ReadToEnd(Turn& turn);

// Cancels the turns and waits for their ends.
void CancelAll(Engine& engine, const std::vector<std::shared_ptr<SessionTurn>>& turns);

inline constexpr uint64_t kEndless = 60000;  // tokens that no test generates

// A request that samples with this seed at temperature 1, so that every earlier token changes the
// results.
SessionTurnRequest Generate(std::shared_ptr<Session> session, std::string_view prompt,
                            uint64_t max_tokens, uint64_t seed = 1);

std::vector<int32_t> Bytes(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_ENGINE_ENGINE_FIXTURE_H_
