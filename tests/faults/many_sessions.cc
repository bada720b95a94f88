// A program that opens many sessions on the demo models with a small budget for caches, leaves them
// idle, and shows what they cost: the server's memory as they grow in number, and whether the
// oldest ones still answer with the tokens of an undisturbed session, also after the server was
// killed.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using Clock = std::chrono::steady_clock;

const std::vector<std::string> kModels = {"dense", "hwfa2", "hypenet"};
constexpr int kClients = 16;
constexpr int kOldest = 30;  // sessions whose answers are checked

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class ManySessions {
 public:
  ManySessions(std::string binary, const std::string& models, const std::string& budget,
               int prompt_bytes, const std::string& idle_timeout)
      : binary_(std::move(binary)) {
    const std::string config =
        directory_.Write("server.yaml", "sessions: {idle_timeout: " + idle_timeout + "}\n");
    arguments_ = {"--config", config, "--store", directory_.string() + "/store"};
    for (const std::string& model : kModels) {
      arguments_.insert(arguments_.end(), {"--model", model + "=" + models + "/" + model +
                                                          ",device=cpu,cache_bytes=" + budget});
    }
    while (static_cast<int>(text_.size()) < prompt_bytes) text_ += "def f(x):\n    return x + 1\n";
    text_.resize(static_cast<size_t>(prompt_bytes));
    Start();
    for (const std::string& model : kModels) {
      // One session in the memory of an undisturbed server.
      client::Connection connection(server_->address());
      const std::string id = connection.Open(model).session_id();
      for (int turn = 0; turn < 3; ++turn) tokens_[model].push_back(Turn(connection, id, turn));
      connection.Close(id);
    }
  }

  // Opens the sessions, with one turn each.
  void Open(int num_sessions) {
    ids_.resize(static_cast<size_t>(num_sessions));
    std::atomic<int> next{0};
    const auto begin = Clock::now();
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&] {
        client::Connection connection(server_->address());
        for (int session; (session = next++) < num_sessions;) {
          try {
            std::string& id = ids_[static_cast<size_t>(session)];
            id = connection.Open(ModelOf(session)).session_id();
            Compare(Turn(connection, id, 0), session, 0);
          } catch (const client::CallError& error) {
            ++different_;
            std::printf("FAULT: session %d: %s\n", session, error.what());
          }
          if ((session + 1) % std::max(1, num_sessions / 10) == 0) {
            std::printf("%7d sessions after %6.1f s, %8.1f MiB resident\n", session + 1,
                        SecondsSince(begin),
                        static_cast<double>(server_->resident_bytes()) / (1 << 20));
            std::fflush(stdout);
          }
        }
      });
    }
    for (std::thread& client : clients) client.join();
  }

  // Runs a turn in each of the oldest sessions.
  void CheckOldest(int turn) {
    client::Connection connection(server_->address());
    std::vector<double> seconds;
    for (int session = 0; session < kOldest && session < static_cast<int>(ids_.size()); ++session) {
      const auto begin = Clock::now();
      Compare(Turn(connection, ids_[static_cast<size_t>(session)], turn), session, turn);
      seconds.push_back(SecondsSince(begin));
    }
    std::sort(seconds.begin(), seconds.end());
    std::printf("the %zu oldest sessions: a turn takes %.1f ms (median), %d turns differ\n",
                seconds.size(), 1e3 * seconds[seconds.size() / 2], different_.load());
  }

  void KillAndStart() {
    server_->Signal(SIGKILL);
    server_->Wait();
    const auto begin = Clock::now();
    Start();
    std::printf("killed; the next server serves all models after %.0f ms, %.1f MiB resident\n",
                1e3 * SecondsSince(begin),
                static_cast<double>(server_->resident_bytes()) / (1 << 20));
  }

  int different() const { return different_; }

 private:
  static const std::string& ModelOf(int session) {
    return kModels[static_cast<size_t>(session) % kModels.size()];
  }

  void Start() {
    server_ = std::make_unique<ServerProcess>(binary_, arguments_);
    client::Connection connection(server_->address());
    for (const std::string& model : kModels) {
      connection.WaitUntilServing(model, std::chrono::seconds(60));
    }
  }

  std::vector<int32_t> Turn(client::Connection& connection, const std::string& id, int turn) const {
    v1::GenerateRequest request;
    request.set_session_id(id);
    request.mutable_input()->set_text(turn == 0 ? text_ : "\n# more\n");
    request.set_max_tokens(16);
    request.mutable_stop()->set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(1.0f);
    request.mutable_sampling()->set_seed(static_cast<uint64_t>(turn));
    return connection.Generate(request).token_ids;
  }

  void Compare(const std::vector<int32_t>& found, int session, int turn) {
    if (found == tokens_.at(ModelOf(session))[static_cast<size_t>(turn)]) return;
    ++different_;
    std::printf("FAULT: turn %d of session %d differs\n", turn, session);
  }

  const std::string binary_;
  const TemporaryDirectory directory_;
  std::vector<std::string> arguments_;
  std::string text_;
  std::unique_ptr<ServerProcess> server_;
  std::map<std::string, std::vector<std::vector<int32_t>>> tokens_;  // of each model and turn
  std::vector<std::string> ids_;
  std::atomic<int> different_{0};
};

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  CLI::App app("Opens many sessions, leaves them idle, and uses the oldest ones again.");
  std::string binary;
  std::string models;
  std::string budget = "340MiB";
  std::string idle_timeout = "1h";
  int num_sessions = 10000;
  int prompt_bytes = 512;
  app.add_option("server", binary, "longstream-server")->required();
  app.add_option("models", models, "directory of the demo models")->required();
  app.add_option("--sessions", num_sessions)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--prompt", prompt_bytes, "bytes of each session's prompt")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--budget", budget, "cache_bytes of each of the three models")
      ->capture_default_str();
  app.add_option("--idle-timeout", idle_timeout, "after which a session leaves the memory")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    longstream::ManySessions run(binary, models, budget, prompt_bytes, idle_timeout);
    run.Open(num_sessions);
    run.CheckOldest(1);
    run.KillAndStart();
    run.CheckOldest(2);
    return run.different() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("FAULT: %s\n", error.what());
    return 1;
  }
}
