// Turns that end at each of their tokens: by CancelTurn, and by SIGTERM.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/e2e/minimal_server.h"
#include "tests/faults/kept_server.h"
#include "tests/faults/turn_script.h"

namespace longstream {
namespace {

constexpr uint32_t kCancelledTokens = 16;

class CancelledTurnsTest : public testing::Test {
 protected:
  CancelledTurnsTest()
      : server_({"--model", minimal_.Flag(",options.utf8=true,options.step_delay_us=5000")}) {
    server_.WaitUntilServing("m");
    RunUndisturbed(connection_, "m", &turns_);
  }
  // Runs a turn, and calls `disturb` when `after` of its tokens have arrived; 0: when it has
  // started.
  template <typename Disturb>
  client::Generation RunDisturbed(const v1::GenerateRequest& request, uint32_t after,
                                  const Disturb& disturb) {
    uint32_t tokens = 0;
    bool done = false;
    return connection_.Generate(request, [&](const v1::GenerateResponse& response) {
      tokens += static_cast<uint32_t>(response.delta().token_ids_size());
      if (!done && tokens >= after) {
        done = true;
        disturb();
      }
      return true;
    });
  }

  const MinimalModelDirectory minimal_;
  KeptServer server_;
  client::Connection connection_{server_.address()};
  std::vector<ScriptedTurn> turns_ = {{RandomTurn("hello", kCancelledTokens, 5), {}},
                                      {RandomTurn(" and more", kCancelledTokens, 6), {}}};
};

TEST_F(CancelledTurnsTest, LeaveTheSessionAsItWasAtEveryToken) {
  PersistentSession session(&connection_, "m");
  session.Run(turns_[0]);
  const uint64_t position = connection_.Get(session.id()).position();
  int cancelled = 0;
  for (uint32_t after = 0; after <= kCancelledTokens; ++after) {
    SCOPED_TRACE(after);
    PersistentSession fork(session, &connection_);
    v1::GenerateRequest request = turns_[1].request;
    request.set_session_id(fork.id());
    request.set_turn_id(client::RandomId());
    v1::Turn turn;
    try {
      RunDisturbed(request, after, [&] {
        client::Connection other(server_.address());
        turn = other.CancelTurn(fork.id(), request.turn_id());
      });
    } catch (const client::CallError& error) {
      EXPECT_EQ(error.status().error_code(), grpc::StatusCode::CANCELLED)
          << error.status().error_message();
    }
    if (turn.state() == v1::TURN_STATE_COMMITTED) continue;  // it ended before it was cancelled
    EXPECT_EQ(turn.state(), v1::TURN_STATE_ABANDONED);
    ++cancelled;
    EXPECT_EQ(connection_.Get(fork.id()).position(), position);
    // The abandoned turn does not run again, not even on the next server, and another turn does.
    if (after % 5 == 0) {
      server_.Kill();
      server_.WaitUntilServing("m");
    }
    EXPECT_THROW(connection_.Generate(request), client::CallError);
    fork.Run(turns_[1]);
    EXPECT_EQ(fork.counts().different, 0u);
    fork.Close();
  }
  std::cout << cancelled << " of " << kCancelledTokens + 1 << " turns cancelled\n";
  EXPECT_GT(cancelled, 0);
}

TEST_F(CancelledTurnsTest, SigtermLetsATurnEndOrGoOnAfterwards) {
  for (const uint32_t after : {0u, 1u, 7u, kCancelledTokens - 1}) {
    SCOPED_TRACE(after);
    PersistentSession session(&connection_, "m");
    session.Run(turns_[0]);
    v1::GenerateRequest request = turns_[1].request;
    request.set_session_id(session.id());
    request.set_turn_id(client::RandomId());
    int exit_code = -1;
    std::thread stopper;
    const client::Generation generation = Persist([&] {
      return RunDisturbed(request, after, [&] {
        if (!stopper.joinable())
          stopper = std::thread([&] { exit_code = server_.Stop().exit_code; });
      });
    });
    stopper.join();
    EXPECT_EQ(exit_code, 0);
    EXPECT_EQ(generation.token_ids, turns_[1].tokens);
    server_.WaitUntilServing("m");
    EXPECT_EQ(connection_.Turns(session.id()).size(), 2u);
    EXPECT_EQ(connection_.Generate(request).token_ids, turns_[1].tokens) << "a replay";
    session.Close();
  }
}

}  // namespace
}  // namespace longstream
