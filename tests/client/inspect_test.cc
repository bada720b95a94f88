// `longstream models` and `longstream sessions`, as text and as JSON.
#include "tests/client/client_fixture.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using InspectTest = ClientTest;

TEST_F(InspectTest, Models) {
  const json list = RunJson({"models"});
  ASSERT_EQ(list["models"].size(), 5u);
  const json one = RunJson({"models", "dense"});
  ASSERT_EQ(one["models"].size(), 1u);
  EXPECT_EQ(one["models"][0]["name"], "dense");
  EXPECT_EQ(one["models"][0]["state"], "MODEL_STATE_READY");
  EXPECT_EQ(one["models"][0]["chat"], false);
  EXPECT_EQ(RunJson({"models", "talk"})["models"][0]["chat"], true);
  EXPECT_EQ(RunJson({"models", "broken"})["models"][0]["state"], "MODEL_STATE_FAILED");
  const ClientRun run = RunOk({"models"});
  EXPECT_THAT(run.out, HasSubstr("NAME"));
  EXPECT_THAT(run.out, HasSubstr("dense"));
  EXPECT_THAT(run.out, HasSubstr("DEVICE KERNELS    PARAMETERS"));
  const std::string kernels = one["models"][0]["kernels"];
  EXPECT_NE(kernels, "");
  EXPECT_THAT(run.out, HasSubstr("dense    cpu    " + kernels + " "));
  EXPECT_EQ(Run({"models", "none"}).exit_code, 1);
}

TEST_F(InspectTest, SessionsAreListedForkedAndClosed) {
  const std::string id = connection_.Open("quick").session_id();
  EXPECT_THAT(Run({"sessions"}).out, HasSubstr(id));
  const json list = RunJson({"sessions", "-m", "quick"});
  ASSERT_EQ(list["sessions"].size(), 1u);
  EXPECT_EQ(list["sessions"][0]["session_id"], id);
  EXPECT_EQ(RunJson({"sessions", "-m", "slow"})["sessions"].size(), 0u);
  EXPECT_THAT(RunOk({"sessions", "list"}).out, HasSubstr(id));
  EXPECT_EQ(RunJson({"sessions", "list", "-m", "slow"})["sessions"].size(), 0u);

  const json fork = RunJson({"sessions", "--fork", id});
  EXPECT_EQ(fork["forked_from"], id);
  const std::string second = Run({"sessions", "--fork", id}).out;
  EXPECT_EQ(second.size(), 33u);  // an id of 32 characters and a newline
  EXPECT_EQ(OpenSessions(3), 3u);

  EXPECT_TRUE(RunJson({"sessions", "--close", fork["session_id"]}).contains("position"));
  const ClientRun closed = RunOk({"sessions", "--close", second.substr(0, 32)});
  EXPECT_EQ(closed.out, "");
  EXPECT_EQ(Run({"sessions", "close", id}).exit_code, 0);
  EXPECT_EQ(Run({"sessions", "close", id}).exit_code, 1);
  EXPECT_EQ(Run({"sessions", "--close", id}).exit_code, 1);
}

TEST_F(InspectTest, ASessionIsShown) {
  const std::string id = connection_.Open("quick").session_id();
  const json shown = RunJson({"sessions", "show", id});
  EXPECT_EQ(shown["session_id"], id);
  EXPECT_EQ(shown["stored_bytes"], "0") << "the server has no store";
  const ClientRun run = RunOk({"sessions", "show", id});
  EXPECT_THAT(run.out, HasSubstr(id));
  EXPECT_THAT(run.out, HasSubstr("quick"));
  EXPECT_THAT(run.out, HasSubstr("it lives in memory"));
  EXPECT_THAT(run.out, HasSubstr("ends after 1h without a turn, or with the server\n"));
  EXPECT_EQ(Run({"sessions", "show", std::string(32, 'f')}).exit_code, 1);
  EXPECT_EQ(Run({"sessions", "--close", id}).exit_code, 0);
}

// As if the program that began the turn were gone: it goes on without a reader.
TEST_F(InspectTest, ATurnIsCancelled) {
  const std::string id = connection_.Open("slow").session_id();
  ExpectFailure(1, {"sessions", "cancel", id}, "session " + id + " runs no turn");
  v1::GenerateRequest request;
  request.set_session_id(id);
  request.set_turn_id(std::string(32, 'a'));
  request.mutable_input()->set_text("text");
  request.set_max_tokens(60000);
  request.mutable_stop()->set_ignore_eos(true);
  std::thread reader([&] {
    client::Connection connection(Server().address());
    EXPECT_THROW(connection.Generate(request), client::CallError);
  });
  while (!connection_.Get(id).turn_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(Run({"sessions", "cancel", id, "--turn", std::string(32, 'b')}).exit_code, 1);
  EXPECT_EQ(RunOk({"sessions", "cancel", id}).out, std::string(32, 'a') + "  abandoned\n");
  reader.join();
  EXPECT_FALSE(connection_.Get(id).turn_running());
  EXPECT_EQ(RunJson({"sessions", "cancel", id, "--turn", std::string(32, 'a')})["state"],
            "TURN_STATE_ABANDONED");
  connection_.Close(id);
}

// The turn that a rewind leaves is still listed.
TEST_F(InspectTest, TheTurnAfterWhichTheSessionStandsIsMarked) {
  const std::string id = connection_.Open("quick").session_id();
  const auto run_turn = [&] {
    return RunOk({"generate", "-s", id, "-n", "4", "--ignore-eos", "x"});
  };
  run_turn();
  const std::string first = connection_.Get(id).head_turn_id();
  run_turn();
  const std::string second = connection_.Get(id).head_turn_id();
  ASSERT_NE(first, second);
  const auto line_of = [&](const std::string& turn) {
    const std::string list = RunOk({"sessions", "turns", id}).out;
    const size_t begin = list.find(turn);
    return list.substr(begin, list.find('\n', begin) - begin);
  };
  EXPECT_THAT(line_of(first), testing::Not(HasSubstr("head")));
  EXPECT_THAT(line_of(second), testing::EndsWith("<- head"));
  RunOk({"sessions", "rewind", id, "--turn", first});
  EXPECT_THAT(line_of(first), testing::EndsWith("<- head"));
  EXPECT_THAT(line_of(second), testing::Not(HasSubstr("head")));
  RunOk({"sessions", "rewind", id, "--position", "2"});
  EXPECT_THAT(line_of(first), testing::EndsWith("<- head, up to 2"));
  connection_.Close(id);
}

}  // namespace
}  // namespace longstream
