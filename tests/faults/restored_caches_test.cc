// A server with a store is killed (SIGKILL) and started again: sessions of the demo models read
// their caches from the store, compute nothing again, and have the tokens of an undisturbed run.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/e2e/scrape.h"
#include "tests/faults/turn_script.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using client::Connection;
using client::Generation;

constexpr uint32_t kTokens = 120;
constexpr int kTurns = 4;

class RestoredCachesTest : public testing::TestWithParam<std::string> {
 protected:
  RestoredCachesTest() {
    Start();
    for (int i = 0; i < kTurns; ++i) {
      std::string text;
      for (int word = 0; word < 40; ++word) text += "word " + std::to_string(i * word) + " ";
      turns_.push_back({RandomTurn(text, kTokens, 7 + static_cast<uint64_t>(i)), {}});
    }
    RunUndisturbed(*connection_, GetParam(), &turns_);
    KillAndStart();  // nothing is measured yet
  }

  void Start() {
    server_ = std::make_unique<ServerProcess>(
        LONGSTREAM_BINARY_DIR "/bin/longstream-server",
        std::vector<std::string>{
            "--store", store_, "--model",
            GetParam() + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" + GetParam() + ",device=cpu"});
    connection_ = std::make_unique<Connection>(server_->address());
    connection_->WaitUntilServing(GetParam(), std::chrono::seconds(60));
  }
  void KillAndStart() {
    if (server_ != nullptr) {
      server_->Signal(SIGKILL);
      server_->Wait();
    }
    Start();
  }

  double Sample(const std::string& name, const std::map<std::string, std::string>& labels) {
    return SampleValue(Scrape(server_->metrics_port()), name, labels).value_or(0);
  }
  double Saves() { return Sample("longstream_session_saves_total", {{"outcome", "ok"}}); }

  // Runs a turn, and waits until its caches are in the store.
  Generation Run(const std::string& session, int turn) {
    Generation generation = RunAndWait(session, turn);
    EXPECT_EQ(generation.token_ids, turns_[static_cast<size_t>(turn)].tokens) << "turn " << turn;
    return generation;
  }
  // The same, whichever tokens come.
  Generation RunAndWait(const std::string& session, int turn) {
    const double saves = Saves();
    v1::GenerateRequest request = turns_[static_cast<size_t>(turn)].request;
    request.set_session_id(session);
    request.set_turn_id(client::RandomId());
    Generation generation = connection_->Generate(request);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (Saves() < saves + 1 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(Saves(), saves + 1);
    ids_.push_back(request.turn_id());
    return generation;
  }

  static void ExpectRestored(const Generation& generation, uint64_t position) {
    const v1::TurnUsage& usage = generation.finish.usage();
    EXPECT_EQ(usage.restored_tokens(), position - 1);
    EXPECT_EQ(usage.restore_source(), v1::RESTORE_SOURCE_STORE);
    EXPECT_EQ(usage.recomputed_tokens(), 0u) << usage.recompute_reason();
  }

  const TemporaryDirectory directory_;
  const std::string store_ = directory_.string() + "/store";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Connection> connection_;
  std::vector<ScriptedTurn> turns_;
  std::vector<std::string> ids_;  // of the turns that have run
};

TEST_P(RestoredCachesTest, EachTurnAfterAKillReadsThem) {
  const std::string session = connection_->Open(GetParam()).session_id();
  uint64_t position = Run(session, 0).finish.position();
  for (int turn = 1; turn < kTurns; ++turn) {
    KillAndStart();
    const Generation generation = Run(session, turn);
    ExpectRestored(generation, position);
    position = generation.finish.position();
    EXPECT_EQ(Sample("longstream_session_restores_total", {{"from", "store"}, {"outcome", "ok"}}),
              1);
  }
}

TEST_P(RestoredCachesTest, RewindsAndForksReadThoseOfTheirTurns) {
  const std::string session = connection_->Open(GetParam()).session_id();
  std::vector<uint64_t> positions;
  for (int turn = 0; turn < 3; ++turn) positions.push_back(Run(session, turn).finish.position());
  KillAndStart();
  v1::ForkSessionRequest request;
  request.set_session_id(session);
  request.set_turn_id(ids_[1]);
  const v1::Session fork = connection_->Fork(request);
  EXPECT_EQ(fork.recompute_tokens(), 0u);
  ExpectRestored(Run(fork.session_id(), 2), positions[1]);
  EXPECT_EQ(connection_->RewindToTurn(session, ids_[0]).recompute_tokens(), 0u);
  ExpectRestored(Run(session, 1), positions[0]);
  // The branch that was left is still there.
  KillAndStart();
  connection_->RewindToTurn(session, ids_[2]);
  ExpectRestored(Run(session, 3), positions[2]);
}

TEST_P(RestoredCachesTest, ATurnThatWasLostGoesOnFromThem) {
  const std::string session = connection_->Open(GetParam()).session_id();
  const uint64_t position = Run(session, 0).finish.position();
  v1::GenerateRequest request = turns_[1].request;
  request.set_session_id(session);
  request.set_turn_id(client::RandomId());
  connection_->set_resume_timeout(std::chrono::milliseconds(0));
  auto* const resume = request.mutable_resume();
  v1::GenerateRequest first = request;
  first.clear_resume();
  try {
    connection_->Generate(first, [&](const v1::GenerateResponse& response) {
      resume->mutable_token_ids()->MergeFrom(response.delta().token_ids());
      if (response.has_delta()) resume->set_position(response.delta().position());
      if (resume->token_ids_size() >= 9) server_->Signal(SIGKILL);
      return true;
    });
    ADD_FAILURE() << "the turn has ended before the server was killed";
  } catch (const client::CallError&) {
  }
  server_->Wait();
  Start();
  const Generation generation = connection_->Generate(request);
  EXPECT_EQ(generation.started.how(), v1::ATTACH_FORCED);
  std::vector<int32_t> tokens(resume->token_ids().begin(), resume->token_ids().end());
  tokens.insert(tokens.end(), generation.token_ids.begin(), generation.token_ids.end());
  EXPECT_EQ(tokens, turns_[1].tokens);
  EXPECT_EQ(connection_->Turns(session).size(), 2u);
  ExpectRestored(generation, position);
  EXPECT_EQ(generation.finish.usage().generated_tokens(), kTokens);
}

TEST_P(RestoredCachesTest, DamageIsComputedAgain) {
  const std::string session = connection_->Open(GetParam()).session_id();
  Run(session, 0);
  const uint64_t position = Run(session, 1).finish.position();
  server_->Signal(SIGKILL);
  server_->Wait();
  int damaged = 0;
  for (const auto& file : std::filesystem::directory_iterator(store_ + "/segments")) {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(file.file_size() - 9));
    bytes.put('\xa5').put('\x5a').put('\x3c');
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  Start();
  const Generation generation = Run(session, 2);
  EXPECT_EQ(generation.finish.usage().restored_tokens(), 0u);
  EXPECT_EQ(generation.finish.usage().recomputed_tokens(), position - 1);
  EXPECT_EQ(
      Sample("longstream_session_restores_total", {{"from", "store"}, {"outcome", "damaged"}}), 1);
  KillAndStart();
  ExpectRestored(Run(session, 3), generation.finish.position());
}

// Their results agree to rounding.
TEST_P(RestoredCachesTest, OtherKernelsReadThem) {
  const std::string session = connection_->Open(GetParam()).session_id();
  Run(session, 0);
  const uint64_t position = Run(session, 1).finish.position();
  const std::string kernels = connection_->Model(GetParam()).kernels();
  setenv("LONGSTREAM_ISA", "baseline", 1);
  KillAndStart();
  unsetenv("LONGSTREAM_ISA");
  EXPECT_NE(connection_->Model(GetParam()).kernels(), kernels);
  const Generation generation = RunAndWait(session, 2);
  ExpectRestored(generation, position);
  KillAndStart();
  ExpectRestored(RunAndWait(session, 3), generation.finish.position());
}

INSTANTIATE_TEST_SUITE_P(Models, RestoredCachesTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace longstream
