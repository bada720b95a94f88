// The server is killed before, in the middle of and after its writes to the store, also while it
// starts. Every acknowledged turn is there once, with the tokens of an undisturbed run.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "tests/e2e/minimal_server.h"
#include "tests/faults/kept_server.h"
#include "tests/faults/turn_script.h"
#include "tests/processes/client_process.h"

namespace longstream {
namespace {

constexpr uint32_t kWrittenTokens = 8;

class KilledWritesTest : public testing::Test {
 protected:
  KilledWritesTest()
      : server_({"--model", minimal_.Flag(",options.utf8=true,options.step_delay_us=500")}) {
    server_.WaitUntilServing("m");
    RunUndisturbed(connection_, "m", &turns_);
  }

  // Two turns, a fork between them and its turn, and the ends of both sessions.
  FaultCounts Run() {
    PersistentSession session(&connection_, "m");
    session.Run(turns_[0]);
    PersistentSession fork(session, &connection_);
    session.Run(turns_[1]);
    fork.Run(turns_[1]);
    session.CheckTurns();
    FaultCounts counts = session.counts();
    counts.Add(fork.counts());
    session.Close();
    fork.Close();
    return counts;
  }

  const MinimalModelDirectory minimal_;
  KeptServer server_;
  client::Connection connection_{server_.address()};
  std::vector<ScriptedTurn> turns_ = {{RandomTurn("hello", kWrittenTokens, 5), {}},
                                      {RandomTurn(" and more", kWrittenTokens, 6), {}}};
};

TEST_F(KilledWritesTest, LoseNothingThatWasAcknowledged) {
  server_.RestartWithFault("count");
  server_.WaitUntilServing("m");
  Run();
  const int calls = static_cast<int>(server_.CountedCalls());
  ASSERT_GT(calls, 10) << "the library does not see the server's writes";

  // 200 rounds for `make faults`. Whatever the number of rounds, they reach from the first call to
  // the last one.
  const int rounds = NumberFromEnvironment("LONGSTREAM_FAULT_ROUNDS", 24);
  FaultCounts counts;
  int killed = 0;
  for (int round = 0; round < rounds; ++round) {
    const int call = 1 + (round * calls) / rounds;
    const std::string fault = "kill " + std::to_string(call) + " " + std::to_string(round % 3);
    SCOPED_TRACE(fault);
    const int starts = server_.starts();
    server_.RestartWithFault(fault);
    counts.Add(Run());
    if (server_.starts() > starts + 1) ++killed;
    if (HasFailure()) break;
  }
  std::cout << killed << " of " << rounds << " servers killed at one of " << calls << " calls; "
            << counts.ToString() << '\n';
  EXPECT_EQ(counts.different + counts.missing + counts.twice, 0u);
  EXPECT_GE(killed, rounds * 3 / 4);

  const ClientRun check = RunClient({"store", "check", server_.store()});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
}

}  // namespace
}  // namespace longstream
