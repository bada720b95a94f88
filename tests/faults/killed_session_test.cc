// A Session of the client library goes on when its server with a store is killed (SIGKILL) and
// started again.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "client/random_id.h"
#include "client/session.h"
#include "tests/e2e/minimal_server.h"
#include "tests/faults/kept_server.h"

namespace longstream {
namespace {

class KilledSessionTest : public testing::Test {
 protected:
  KilledSessionTest() { connection_.WaitUntilServing("m", std::chrono::seconds(60)); }

  static v1::GenerateRequest Options() {
    v1::GenerateRequest options;
    options.set_max_tokens(24);
    options.mutable_sampling()->set_temperature(1.0f);
    options.mutable_sampling()->set_seed(5);
    options.set_turn_id(client::RandomId());
    return options;
  }

  const MinimalModelDirectory minimal_;
  KeptServer server_{{"--model", minimal_.Flag(",options.utf8=true,options.step_delay_us=5000")}};
  client::Connection connection_{server_.address()};
};

TEST_F(KilledSessionTest, EachPieceOfAnAnswerComesOnce) {
  const client::Generation undisturbed =
      client::Session(connection_, "m").Generate("hello", Options());
  client::Session session(connection_, "m");
  std::string text;
  bool was_killed = false;
  const client::Generation answer =
      session.Generate("hello", Options(), [&](std::string_view piece) {
        text += piece;
        if (!std::exchange(was_killed, true)) server_.Kill();
      });
  EXPECT_EQ(text, undisturbed.text);
  EXPECT_EQ(answer.token_ids, undisturbed.token_ids);
  EXPECT_EQ(session.Position(), undisturbed.finish.position());
}

TEST_F(KilledSessionTest, OtherCallsGoOnToo) {
  client::Session session(connection_, "m");
  server_.Kill();
  EXPECT_EQ(session.Append("hello").position(), 5u);
  server_.Kill();
  client::Session fork = session.ForkAtPosition(3);
  server_.Kill();
  EXPECT_EQ(fork.Position(), 3u);
  server_.Kill();
  EXPECT_EQ(session.RewindToPosition(0).position(), 0u);
}

// A program that was killed too has saved both ids.
TEST_F(KilledSessionTest, AnotherProgramReadsTheAnswerFromItsBeginning) {
  client::Session session(connection_, "m");
  const v1::GenerateRequest options = Options();
  const client::Generation answer = session.Generate("hello", options);
  server_.Kill();
  client::Session attached = client::Session::Attach(connection_, session.id());
  std::string text;
  const client::Generation again =
      attached.Generate("hello", options, [&](std::string_view piece) { text += piece; });
  EXPECT_EQ(again.started.how(), v1::ATTACH_REPLAYED);
  EXPECT_EQ(again.token_ids, answer.token_ids);
  EXPECT_EQ(text, answer.text);
}

}  // namespace
}  // namespace longstream
