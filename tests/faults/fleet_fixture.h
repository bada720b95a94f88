// Servers that share a database, as a fleet.
#ifndef LONGSTREAM_TESTS_FAULTS_FLEET_FIXTURE_H_
#define LONGSTREAM_TESTS_FAULTS_FLEET_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/e2e/scrape.h"
#include "tests/faults/turn_script.h"
#include "tests/processes/postgres_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {

inline constexpr char kModel[] = "hypenet";

class FleetTest : public testing::Test {
 protected:
  struct Replica {
    std::unique_ptr<ServerProcess> server;
    std::unique_ptr<client::Connection> connection;

    client::Connection& operator*() const { return *connection; }
    client::Connection* operator->() const { return connection.get(); }
  };

  // `foreign`: of fleet.foreign. `times`: of the server. `keys`: of the model.
  Replica Start(const std::string& id, const std::string& foreign = "fetch",
                const std::string& lease_ttl = "2s",
                const std::string& times = "drain_timeout: 20s", const std::string& keys = "") {
    const std::string config = directory_.string() + "/" + id + ".yaml";
    std::ofstream(config) << "fleet:\n"
                          << "  replica_id: " << id << "\n"
                          << "  peer_listen: 127.0.0.1:0\n"
                          << "  lease_ttl: " << lease_ttl << "\n"
                          << "  min_residency: 0s\n"
                          << "  foreign: " << foreign << "\n"
                          << times << "\n";
    Replica replica;
    replica.server = std::make_unique<ServerProcess>(
        LONGSTREAM_BINARY_DIR "/bin/longstream-server",
        std::vector<std::string>{"--config", config, "--store", url_, "--model",
                                 std::string(kModel) + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" +
                                     kModel + ",device=cpu" + keys});
    replica.connection = std::make_unique<client::Connection>(replica.server->address());
    replica->WaitUntilServing(kModel, std::chrono::seconds(60));
    return replica;
  }

  // Makes a call until the answer is neither UNAVAILABLE nor ABORTED, as clients of a fleet do.
  template <typename Call>
  static auto Insist(const Call& call) -> decltype(call()) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
      try {
        return call();
      } catch (const client::CallError& error) {
        const grpc::StatusCode code = error.status().error_code();
        const bool may_repeat =
            code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::ABORTED ||
            code == grpc::StatusCode::UNKNOWN || code == grpc::StatusCode::INTERNAL;
        if (!may_repeat || std::chrono::steady_clock::now() >= until) throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  static client::Generation Run(const Replica& on, const v1::GenerateRequest& request) {
    return Insist([&] { return on->Collect(request); });
  }
  static std::string Open(const Replica& on) {
    const std::string id = client::RandomId();
    Insist([&] { return on->Open(kModel, id); });
    return id;
  }
  static v1::GenerateRequest For(const std::string& session, const ScriptedTurn& turn) {
    v1::GenerateRequest request = turn.request;
    request.set_session_id(session);
    request.set_turn_id(client::RandomId());
    return request;
  }
  // Turns of a conversation, and their tokens if nothing disturbs them.
  static std::vector<ScriptedTurn> Script(const Replica& on, int turns, uint32_t tokens) {
    std::vector<ScriptedTurn> script;
    for (int i = 0; i < turns; ++i) {
      std::string text = "The " + std::to_string(i) + ". part of a long story";
      script.push_back({RandomTurn(text, tokens, 7 + static_cast<uint64_t>(i)), {}});
    }
    RunUndisturbed(*on, kModel, &script);
    return script;
  }
  static bool Logs(const Replica& replica, const std::string& line) {
    return replica.server->Log().find(line) != std::string::npos;
  }
  // The tokens whose caches were not there.
  static uint64_t Lost(const client::Generation& turn) {
    const v1::TurnUsage& usage = turn.finish.usage();
    const bool has_come = usage.restore_source() == v1::RESTORE_SOURCE_PEER;
    return usage.recomputed_tokens() + (has_come ? 0 : usage.restored_tokens());
  }
  // Of session_restores_total{from="peer"}.
  static double FromPeers(const Replica& replica, const std::string& outcome) {
    return SampleValue(Scrape(replica.server->metrics_port()), "longstream_session_restores_total",
                       {{"from", "peer"}, {"outcome", outcome}})
        .value_or(0);
  }

  const TemporaryDirectory directory_;
  PostgresServer postgres_;
  const std::string url_ = postgres_.Url(postgres_.NewDatabase());
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_FAULTS_FLEET_FIXTURE_H_
