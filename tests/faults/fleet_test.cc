// Two servers that share a database, as a fleet: sessions go from one to the other, and neither a
// SIGKILL in a turn nor a SIGTERM changes a token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/faults/fleet_fixture.h"
#include "tests/processes/client_process.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using client::Connection;
using client::Generation;
using testing::HasSubstr;
using testing::Not;

TEST_F(FleetTest, TurnsAlternateBetweenServersWithTheTokensOfOne) {
  const Replica a = Start("a");
  const Replica b = Start("b");
  const std::vector<ScriptedTurn> script = Script(a, 4, 24);
  const std::string session = Open(a);
  uint64_t before = 0;  // the position before the turn
  for (size_t i = 0; i < script.size(); ++i) {
    const Generation turn = Run(i % 2 == 0 ? a : b, For(session, script[i]));
    EXPECT_EQ(turn.token_ids, script[i].tokens) << i;
    EXPECT_EQ(Lost(turn), 0u) << "the caches came with the session, turn " << i;
    const v1::TurnUsage& usage = turn.finish.usage();
    EXPECT_EQ(usage.restored_tokens(), i == 0 ? 0 : before - 1) << i;
    EXPECT_EQ(usage.restore_source(),
              i == 0 ? v1::RESTORE_SOURCE_UNSPECIFIED : v1::RESTORE_SOURCE_PEER);
    before = turn.finish.position();
  }
  EXPECT_EQ(FromPeers(a, "ok"), 1);
  EXPECT_EQ(FromPeers(b, "ok"), 2);
  // Each server shows the session as it is.
  EXPECT_EQ(a->Get(session).position(), b->Get(session).position());
  EXPECT_EQ(a->Get(session).version(), b->Get(session).version());
  EXPECT_EQ(a->Turns(session).size(), script.size());
  // A fork of a session of the other server, and the end of one.
  const std::string fork = Insist([&] { return a->Fork(session); }).session_id();
  EXPECT_EQ(a->Get(fork).position(), b->Get(session).position());
  Insist([&] { return a->Close(session); });
  EXPECT_THROW(b->Get(session), client::CallError);
}

TEST_F(FleetTest, ATurnWhoseServerIsKilledGoesOnElsewhere) {
  Replica a = Start("a");
  const Replica b = Start("b");
  const std::vector<ScriptedTurn> script = Script(b, 2, 200);
  const std::string session = Open(a);
  EXPECT_EQ(Run(a, For(session, script[0])).token_ids, script[0].tokens);
  v1::GenerateRequest request = For(session, script[1]);
  std::vector<int32_t> received;
  uint64_t position = 0;
  a->set_resume_timeout(std::chrono::milliseconds(0));
  try {
    a->Generate(request, [&](const v1::GenerateResponse& response) {
      if (response.has_delta()) {
        received.insert(received.end(), response.delta().token_ids().begin(),
                        response.delta().token_ids().end());
        position = response.delta().position();
        if (received.size() >= 20) a.server->Signal(SIGKILL);
      }
      return true;
    });
  } catch (const client::CallError&) {
    // The server is dead.
  }
  a.server->Wait();
  ASSERT_GE(received.size(), 20u);
  request.mutable_resume()->set_position(position);
  for (const int32_t token : received) request.mutable_resume()->add_token_ids(token);
  // Until the lease of the dead server is over, the answer is UNAVAILABLE.
  const Generation rest = Run(b, request);
  received.insert(received.end(), rest.token_ids.begin(), rest.token_ids.end());
  EXPECT_EQ(received, script[1].tokens);
  // The same id again has the same answer.
  request.clear_resume();
  EXPECT_EQ(Run(b, request).token_ids, script[1].tokens);
}

TEST_F(FleetTest, AServerThatStopsHandsItsSessionsOver) {
  Replica a = Start("a");
  const Replica b = Start("b");
  const std::vector<ScriptedTurn> script = Script(b, 2, 24);
  std::vector<std::string> sessions;
  for (int i = 0; i < 6; ++i) {
    sessions.push_back(Open(a));
    EXPECT_EQ(Run(a, For(sessions.back(), script[0])).token_ids, script[0].tokens);
  }
  EXPECT_EQ(a.server->Stop(), 0) << a.server->Log();
  EXPECT_THAT(a.server->Log(), HasSubstr("\"handed_over\":\"6\""));
  for (const std::string& session : sessions) {
    const Generation turn = Run(b, For(session, script[1]));
    EXPECT_EQ(turn.token_ids, script[1].tokens);
    EXPECT_EQ(Lost(turn), 0u) << "the caches came with the session";
  }
}

// Statements of leases are given up only after minutes, and the orchestrator waits for seconds.
TEST_F(FleetTest, AServerEndsInTimeWhileTheDatabaseHangs) {
  const Replica a = Start("a", "fetch", "5m", "grace: 1s\ndrain_timeout: 2s");
  const std::vector<ScriptedTurn> script = Script(a, 1, 8);
  EXPECT_EQ(Run(a, For(Open(a), script[0])).token_ids, script[0].tokens);
  postgres_.Freeze();
  a.server->Signal(SIGTERM);
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (a.server->running() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const bool ended = !a.server->running();
  postgres_.Thaw();
  EXPECT_TRUE(ended);
  EXPECT_EQ(a.server->Wait(), 0) << a.server->Log();
}

TEST_F(FleetTest, ALeaseThatIsLostIsToldInTheLog) {
  const Replica a = Start("a");
  EXPECT_THAT(a.server->Log(), Not(HasSubstr("lease_lost")));
  postgres_.Freeze();
  EXPECT_TRUE(WaitUntil([&] { return Logs(a, R"("event":"lease_lost","replica":"a/1")"); }));
  postgres_.Thaw();
  EXPECT_TRUE(WaitUntil([&] { return Logs(a, R"("event":"lease_renewed","replica":"a/1")"); }));
  const std::vector<ScriptedTurn> script = Script(a, 1, 8);
  EXPECT_EQ(Run(a, For(Open(a), script[0])).token_ids, script[0].tokens);
}

TEST_F(FleetTest, AnAliasThatIsChangedAtOneServerChangesAtTheOther) {
  const std::string admin = "unix:" + directory_.string() + "/admin";
  const Replica a = Start("a", "fetch", "2s", "admin: {listen: '" + admin + "'}");
  const Replica b = Start("b");
  const auto change = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"admin", "--admin", admin, "alias"});
    ClientProcess client(arguments);
    EXPECT_EQ(client.Wait(), 0) << client.err();
  };
  const auto opens = [&] {
    try {
      b->Open("chat");
      return true;
    } catch (const client::CallError& error) {
      EXPECT_EQ(error.status().error_code(), grpc::StatusCode::NOT_FOUND) << error.what();
      return false;
    }
  };
  EXPECT_FALSE(opens());
  change({"set", "chat", std::string(kModel) + "=1"});
  EXPECT_TRUE(WaitUntil(opens));
  // The line comes after the change.
  EXPECT_TRUE(
      WaitUntil([&] { return Logs(b, R"("event":"alias","alias":"chat","arms":"hypenet=1")"); }));
  change({"delete", "chat"});
  EXPECT_TRUE(WaitUntil([&] { return !opens(); }));
  EXPECT_TRUE(WaitUntil([&] { return Logs(b, R"("event":"alias_deleted","alias":"chat")"); }));
}

// Each session that a server hands over is used at once, often on another server than the one that
// has taken it. Some turns run when the drain begins.
TEST_F(FleetTest, SessionsOfADrainKeepTheirCachesWhereverTheyAreUsedNext) {
  constexpr size_t kSessions = 24, kRunning = 4;
  Replica a = Start("a");
  const Replica b = Start("b");
  const Replica c = Start("c");
  const std::vector<ScriptedTurn> script = Script(b, 2, 24);
  const std::vector<ScriptedTurn> longer = Script(b, 2, 400);  // of those that run
  std::vector<std::string> sessions;
  for (size_t i = 0; i < kSessions; ++i) {
    sessions.push_back(Open(a));
    if (i >= kRunning) {
      EXPECT_EQ(Run(a, For(sessions[i], script[0])).token_ids, script[0].tokens);
    }
  }
  std::vector<std::thread> running;
  std::atomic<size_t> begun = 0, ended = 0;
  for (size_t i = 0; i < kRunning; ++i) {
    running.emplace_back([&, i] {
      bool has_begun = false;
      const auto read = [&](const v1::GenerateResponse& /*response*/) {
        if (!std::exchange(has_begun, true)) ++begun;
        return true;
      };
      try {
        const Generation turn =
            Connection(a.server->address()).Generate(For(sessions[i], longer[0]), read);
        EXPECT_EQ(turn.token_ids, longer[0].tokens);
      } catch (const client::CallError& error) {
        ADD_FAILURE() << i << ": " << error.what();
      }
      ++ended;
    });
  }
  EXPECT_TRUE(WaitUntil([&] { return begun == kRunning; }));
  a.server->Signal(SIGTERM);
  EXPECT_LT(ended, kRunning) << "no turn ran when the drain began";
  for (std::thread& each : running) each.join();
  EXPECT_EQ(a.server->Wait(), 0);
  for (size_t i = 0; i < kSessions; ++i) {
    const ScriptedTurn& next = (i < kRunning ? longer : script)[1];
    const Generation turn = Run(i / 2 % 2 == 0 ? b : c, For(sessions[i], next));
    EXPECT_EQ(turn.token_ids, next.tokens) << i;
    EXPECT_EQ(Lost(turn), 0u) << i << ": " << turn.finish.usage().recompute_reason();
  }
}

// A server that has just taken sessions ends, too.
TEST_F(FleetTest, SessionsThatAreHandedOverTwiceKeepTheirCaches) {
  constexpr size_t kSessions = 8;
  Replica a = Start("a");
  Replica b = Start("b");
  const Replica c = Start("c");
  const std::vector<ScriptedTurn> script = Script(c, 2, 24);
  std::vector<std::string> sessions;
  for (size_t i = 0; i < kSessions; ++i) {
    sessions.push_back(Open(a));
    EXPECT_EQ(Run(a, For(sessions[i], script[0])).token_ids, script[0].tokens);
  }
  for (Replica* leaving : {&a, &b}) {
    leaving->server->Signal(SIGTERM);
    EXPECT_EQ(leaving->server->Wait(), 0);
    EXPECT_FALSE(Logs(*leaving, "caches_lost"));
  }
  for (const std::string& session : sessions) {
    const Generation turn = Run(c, For(session, script[1]));
    EXPECT_EQ(turn.token_ids, script[1].tokens);
    EXPECT_EQ(Lost(turn), 0u) << turn.finish.usage().recompute_reason();
  }
}

TEST_F(FleetTest, ATurnThatRunsElsewhereIsRelayed) {
  const Replica a = Start("a");
  const Replica b = Start("b");
  const std::vector<ScriptedTurn> script = Script(a, 1, 400);
  const std::string session = Open(a);
  const v1::GenerateRequest request = For(session, script[0]);
  Generation relayed;
  std::thread reader;
  bool has_begun = false;
  a->set_resume_timeout(std::chrono::milliseconds(0));  // it does not take the turn back
  const Generation turn = [&] {
    try {
      return a->Generate(request, [&](const v1::GenerateResponse& response) {
        if (response.has_delta() && !has_begun) {
          has_begun = true;
          reader = std::thread([&] { relayed = Run(b, request); });
        }
        return true;
      });
    } catch (const client::CallError&) {
      return Generation();  // the other call reads the turn now
    }
  }();
  if (reader.joinable()) reader.join();
  EXPECT_EQ(relayed.token_ids, script[0].tokens);
  // Both servers have the answer.
  EXPECT_EQ(Run(a, request).token_ids, script[0].tokens);
}

// The turn runs on one server, and its client cancels it through the other one.
TEST_F(FleetTest, ATurnIsCancelledThroughTheOtherServer) {
  const Replica a = Start("a");
  const Replica b = Start("b");
  const std::string session = Open(a);
  v1::GenerateRequest request;
  request.set_session_id(session);
  request.set_turn_id(client::RandomId());
  request.mutable_input()->set_text("def main():");
  request.mutable_stop()->set_ignore_eos(true);
  request.set_on_abort(v1::ON_ABORT_CONTINUE);
  std::optional<v1::Turn> cancelled;
  std::thread canceller;
  try {
    a->Generate(request, [&](const v1::GenerateResponse& response) {
      if (!response.has_delta() || canceller.joinable()) return true;
      canceller = std::thread([&] {
        for (int i = 0; i < 100 && !cancelled.has_value(); ++i) {
          try {
            cancelled = b->CancelTurn(session, request.turn_id());
          } catch (const client::CallError& error) {  // the replicas may not know each other yet
            EXPECT_EQ(error.status().error_code(), grpc::StatusCode::UNAVAILABLE) << error.what();
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
          }
        }
      });
      return true;
    });
    ADD_FAILURE() << "the turn was not cancelled";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::CANCELLED) << error.what();
  }
  if (canceller.joinable()) canceller.join();
  ASSERT_TRUE(cancelled.has_value());
  EXPECT_EQ(cancelled->turn_id(), request.turn_id());
  EXPECT_EQ(cancelled->state(), v1::TURN_STATE_ABANDONED);
  for (const Replica* replica : {&a, &b}) {
    const std::vector<v1::Turn> turns = (*replica)->Turns(session);
    ASSERT_EQ(turns.size(), 1u);
    EXPECT_EQ(turns[0].state(), v1::TURN_STATE_ABANDONED);
  }
}

TEST_F(FleetTest, AServerWhoseNameIsTakenEnds) {
  Replica first = Start("a");
  const Replica second = Start("a");
  EXPECT_NE(first.server->Wait(), 0);
  EXPECT_THAT(first.server->Log(), HasSubstr("fleet_replaced"));
  EXPECT_THAT(first.server->Log(), HasSubstr("two servers have fleet.replica_id: a,"));
  const std::vector<ScriptedTurn> script = Script(second, 1, 8);
  EXPECT_EQ(Run(second, For(Open(second), script[0])).token_ids, script[0].tokens);
}

}  // namespace
}  // namespace longstream
