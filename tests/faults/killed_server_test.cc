// A server with a store is killed (SIGKILL) in the middle of turns and started again: sessions and
// turns go on without a repeated or different token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/e2e/minimal_server.h"
#include "tests/faults/kept_server.h"
#include "tests/processes/client_process.h"
#include "tests/processes/postgres_server.h"

namespace longstream {
namespace {

constexpr uint32_t kTurnTokens = 24;

// Where the sessions are: in a directory, or in PostgreSQL.
class KilledServerTest : public testing::TestWithParam<const char*> {
 protected:
  KilledServerTest() { WaitUntilServing(); }

  void WaitUntilServing() { connection_.WaitUntilServing("m", std::chrono::seconds(60)); }

  static v1::GenerateRequest Request(const std::string& session, const std::string& text) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.mutable_input()->set_text(text);
    request.set_max_tokens(kTurnTokens);
    request.mutable_sampling()->set_temperature(1.0f);
    request.mutable_sampling()->set_presence_penalty(0.5f);
    request.mutable_sampling()->set_seed(5);
    request.set_turn_id(client::RandomId());
    return request;
  }

  // Runs the turn; kills the server when `cut` tokens have arrived.
  client::Generation GenerateAcrossKill(const v1::GenerateRequest& request, size_t cut) {
    size_t size = 0;
    client::Generation generation =
        connection_.Generate(request, [&](const v1::GenerateResponse& response) {
          const bool was_before = size < cut;
          size += static_cast<size_t>(response.delta().token_ids_size());
          if (was_before && size >= cut) server_.Kill();
          return true;
        });
    // The turn may have ended before the server was killed. Then the client does not know yet that
    // its connection is gone.
    WaitUntilServing();
    return generation;
  }

  const MinimalModelDirectory minimal_;
  const std::unique_ptr<PostgresServer> postgres_ =
      std::string(GetParam()) == "Postgres" ? std::make_unique<PostgresServer>() : nullptr;
  KeptServer server_{{"--model", minimal_.Flag(",options.utf8=true,options.step_delay_us=5000")},
                     postgres_ == nullptr ? "" : postgres_->Url(postgres_->NewDatabase())};
  client::Connection connection_{server_.address()};
};

TEST_P(KilledServerTest, TurnsGoOnWithTheSameTokens) {
  // Undisturbed turns.
  const std::string control = connection_.Open("m").session_id();
  const client::Generation first = connection_.Generate(Request(control, "hello"));
  const client::Generation second = connection_.Generate(Request(control, " and more"));
  ASSERT_EQ(first.token_ids.size(), kTurnTokens);

  for (const size_t cut : {1u, 2u, 11u, kTurnTokens - 1u}) {
    SCOPED_TRACE(cut);
    const std::string id = connection_.Open("m").session_id();
    const v1::GenerateRequest request = Request(id, "hello");
    const client::Generation disturbed = GenerateAcrossKill(request, cut);
    EXPECT_EQ(disturbed.token_ids, first.token_ids);
    EXPECT_EQ(disturbed.text, first.text);
    EXPECT_EQ(disturbed.finish.position(), first.finish.position());
    const client::Generation replayed = connection_.Generate(request);
    EXPECT_EQ(replayed.started.how(), v1::ATTACH_REPLAYED);
    EXPECT_EQ(replayed.token_ids, first.token_ids);

    // The second turn is lost in the session that was restored.
    const client::Generation next = GenerateAcrossKill(Request(id, " and more"), cut);
    EXPECT_EQ(next.token_ids, second.token_ids);
    EXPECT_EQ(next.finish.position(), second.finish.position());
    EXPECT_EQ(connection_.Turns(id).size(), 2u);
    connection_.Close(id);
  }
}

TEST_P(KilledServerTest, SessionsAreThereAfterwards) {
  const std::string id = connection_.Open("m", client::RandomId()).session_id();
  const v1::GenerateRequest request = Request(id, "hello");
  const client::Generation first = connection_.Generate(request);
  const std::string fork = connection_.Fork(id).session_id();
  connection_.Append(fork, "abc");
  const std::string closed = connection_.Open("m").session_id();
  connection_.Close(closed);
  const v1::Session before = connection_.Get(id);
  EXPECT_EQ(before.durability(), v1::DURABILITY_TURN);

  server_.Kill();
  WaitUntilServing();
  EXPECT_EQ(connection_.Sessions("").size(), 2u);
  const v1::Session after = connection_.Get(id);
  EXPECT_EQ(after.position(), before.position());
  EXPECT_EQ(after.idle_timeout().seconds(), before.idle_timeout().seconds());
  EXPECT_EQ(connection_.Get(fork).position(), before.position() + 3);
  EXPECT_EQ(connection_.Get(fork).forked_from(), id);
  EXPECT_THROW(connection_.Get(closed), client::CallError);
  EXPECT_EQ(connection_.Open("m", id).position(), before.position()) << "an equal repeat";
  EXPECT_EQ(connection_.Generate(request).token_ids, first.token_ids);
  const client::Generation more = connection_.Generate(Request(fork, " more"));
  // The server may have been killed before the caches of the last turns were in the store.
  const v1::TurnUsage& usage = more.finish.usage();
  EXPECT_EQ(usage.restored_tokens() + usage.recomputed_tokens(), before.position() + 2);
  connection_.Close(fork);
  connection_.Close(id);
  EXPECT_TRUE(connection_.Sessions("").empty());
  server_.Kill();
  WaitUntilServing();
  EXPECT_TRUE(connection_.Sessions("").empty());
}

TEST_P(KilledServerTest, TheCommandGoesOnByItself) {
  const std::vector<std::string> command = {
      "--server", server_.address(), "generate", "--temperature", "1", "--seed", "5", "-n", "80",
      "hello"};
  ClientProcess undisturbed(command);
  ASSERT_EQ(undisturbed.Wait(), 0) << undisturbed.err();
  ClientProcess disturbed(command);
  disturbed.WaitForOutput(20);
  server_.Kill();
  EXPECT_EQ(disturbed.Wait(), 0) << disturbed.err();
  EXPECT_EQ(disturbed.out(), undisturbed.out());
  EXPECT_THAT(disturbed.err(), testing::HasSubstr("trying again"));
}

// The database crashes in the middle of a turn, and while a turn begins and ends.
TEST_P(KilledServerTest, TurnsGoOnWhenTheDatabaseIsStartedAgain) {
  if (postgres_ == nullptr) return;  // a directory has no server
  const std::string control = connection_.Open("m").session_id();
  const client::Generation undisturbed = connection_.Generate(Request(control, "hello"));
  for (const size_t cut : {1u, kTurnTokens - 1u}) {
    const std::string id = connection_.Open("m").session_id();
    size_t size = 0;
    const client::Generation generation =
        connection_.Generate(Request(id, "hello"), [&](const v1::GenerateResponse& response) {
          const bool was_before = size < cut;
          size += static_cast<size_t>(response.delta().token_ids_size());
          if (was_before && size >= cut) {
            postgres_->Crash();
            postgres_->Start();
          }
          return true;
        });
    EXPECT_EQ(generation.token_ids, undisturbed.token_ids);
    EXPECT_EQ(connection_.Turns(id).size(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, KilledServerTest, testing::Values("Sqlite", "Postgres"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace longstream
