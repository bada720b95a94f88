// The client resumes a turn whose connection was lost, by itself.
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/client_fixture.h"
#include "tests/processes/dropping_proxy.h"

namespace longstream {
namespace {

class ResumeTest : public ClientTest {
 protected:
  ResumeTest() : proxy_(PortOf(Server().address())), through_(proxy_.address()) {}

  static int PortOf(const std::string& address) {
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  static v1::GenerateRequest Request(const std::string& session, uint32_t tokens = 20) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.mutable_input()->set_text("hello");
    request.set_max_tokens(tokens);
    request.mutable_sampling()->set_temperature(1.0f);
    request.mutable_sampling()->set_seed(3);
    return request;
  }

  DroppingProxy proxy_;
  client::Connection through_;
};

TEST_F(ResumeTest, EveryTokenComesOnce) {
  // Behind the last cut the model computes for half a second more, so that the client notices the
  // cut before the end, also on a busy machine.
  constexpr uint32_t kTokens = 45;
  std::string session = connection_.Open("slow").session_id();
  const client::Generation expected = connection_.Generate(Request(session, kTokens));
  connection_.Close(session);
  ASSERT_EQ(expected.token_ids.size(), kTokens);
  for (const size_t cut : {1u, 2u, 7u, 19u}) {
    session = through_.Open("slow").session_id();
    const int before = proxy_.connections();
    std::vector<int32_t> tokens;
    std::string text;
    int lost = 0;
    const client::Generation resumed = through_.Generate(
        Request(session, kTokens),
        [&](const v1::GenerateResponse& response) {
          const v1::Delta& delta = response.delta();
          const bool was_before = tokens.size() < cut;
          tokens.insert(tokens.end(), delta.token_ids().begin(), delta.token_ids().end());
          text += delta.text();
          if (was_before && tokens.size() >= cut) proxy_.Drop();
          return true;
        },
        [&](const client::CallError&) { ++lost; });
    EXPECT_EQ(tokens, expected.token_ids) << "cut after " << cut << " tokens";
    EXPECT_EQ(text, expected.text);
    EXPECT_EQ(resumed.token_ids, expected.token_ids);
    EXPECT_EQ(resumed.finish.position(), expected.finish.position());
    EXPECT_GE(lost, 1);
    EXPECT_GT(proxy_.connections(), before);
    EXPECT_EQ(connection_.Get(session).position(), expected.finish.position());
    connection_.Close(session);
  }
}

// A server that is started again refuses connections for some seconds.
TEST_F(ResumeTest, AServerThatListensAgainIsFoundWithinAFewTries) {
  constexpr int kRefused = 8;
  bool refuses = false;
  const std::string session = through_.Open("slow").session_id();
  int lost = 0;
  const client::Generation resumed = through_.Generate(
      Request(session),
      [&](const v1::GenerateResponse& response) {
        // Further deltas may have arrived already.
        if (response.has_delta() && !std::exchange(refuses, true)) proxy_.Refuse();
        return true;
      },
      [&](const client::CallError&) {
        if (++lost == kRefused) proxy_.Listen();
      });
  EXPECT_EQ(resumed.token_ids.size(), 20u);
  // A pause is at most half a second, and gRPC tries to connect about once a second.
  EXPECT_LE(lost, kRefused + 6);
  connection_.Close(session);
}

// The turn has an id, so it is safe to send it again whatever became of the first call.
TEST_F(ResumeTest, ATurnThatHasNotStartedIsSentAgainToo) {
  const std::string session = through_.Open("slow").session_id();
  proxy_.Refuse();
  int lost = 0;
  const client::Generation turn =
      through_.Generate(Request(session), {}, [&](const client::CallError& error) {
        EXPECT_EQ(error.status().error_code(), grpc::StatusCode::UNAVAILABLE) << error.what();
        if (++lost == 3) proxy_.Listen();
      });
  EXPECT_EQ(turn.token_ids.size(), 20u);
  EXPECT_GE(lost, 3);
  EXPECT_EQ(connection_.Turns(session).size(), 1u);
  connection_.Close(session);
}

// Nothing is there to wait for: --wait does that.
TEST_F(ResumeTest, AnAddressThatHasNeverAnsweredIsAnErrorAtOnce) {
  proxy_.Refuse();
  client::Connection nowhere(proxy_.address());
  const auto begin = std::chrono::steady_clock::now();
  int lost = 0;
  try {
    nowhere.Generate(Request("00000000000000000000000000000001"), {},
                     [&](const client::CallError&) { ++lost; });
    ADD_FAILURE() << "nobody listens";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::UNAVAILABLE) << error.what();
    EXPECT_EQ(error.exit_code(), client::kNoServer);
  }
  EXPECT_EQ(lost, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(ResumeTest, AnErrorThatDoesNotPassEndsTheTurn) {
  v1::GenerateRequest request = Request("00000000000000000000000000000001");
  int lost = 0;
  EXPECT_THROW(through_.Generate(request, {}, [&](const client::CallError&) { ++lost; }),
               client::CallError);
  EXPECT_EQ(lost, 0);
}

TEST_F(ResumeTest, GivesUpAfterTheTimeout) {
  through_.set_resume_timeout(std::chrono::milliseconds(0));
  const std::string session = through_.Open("slow").session_id();
  EXPECT_THROW(through_.Generate(Request(session),
                                 [&](const v1::GenerateResponse& response) {
                                   if (response.has_delta()) proxy_.Drop();
                                   return true;
                                 }),
               client::CallError);
  connection_.Close(session);
}

// A caller that has enough cancels the turn, which would otherwise go on without it.
TEST_F(ResumeTest, AStoppedTurnIsCancelled) {
  const std::string session = connection_.Open("slow").session_id();
  v1::GenerateRequest request = Request(session);
  request.set_max_tokens(10000);
  EXPECT_THROW(
      connection_.Generate(
          request, [](const v1::GenerateResponse& response) { return !response.has_delta(); }),
      client::CallError);
  EXPECT_FALSE(connection_.Get(session).turn_running());
  EXPECT_EQ(connection_.Get(session).position(), 0u);
  const std::vector<v1::Turn> turns = connection_.Turns(session);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].state(), v1::TURN_STATE_ABANDONED);
  connection_.Close(session);
}

}  // namespace
}  // namespace longstream
