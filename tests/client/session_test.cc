// Session: what its calls do at a real server, which sessions it closes, and lost connections.
#include "client/session.h"

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/random_id.h"
#include "tests/client/client_fixture.h"
#include "tests/processes/dropping_proxy.h"

namespace longstream {
namespace {

constexpr char kNoSession[] = "00000000000000000000000000000001";

class SessionTest : public ClientTest {
 protected:
  static v1::GenerateRequest Options() {
    v1::GenerateRequest options;
    options.set_max_tokens(12);
    options.mutable_stop()->set_ignore_eos(true);
    options.mutable_sampling()->set_temperature(1.0f);
    options.mutable_sampling()->set_seed(3);
    return options;
  }

  static grpc::StatusCode CodeOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const client::CallError& error) {
      return error.status().error_code();
    }
    return grpc::StatusCode::OK;
  }
};

TEST_F(SessionTest, IsClosedAtItsEnd) {
  {
    const client::Session session(connection_, "quick");
    EXPECT_EQ(session.opened().model(), "quick");
    EXPECT_EQ(connection_.Get(session.id()).position(), 0u);
  }
  EXPECT_EQ(OpenSessions(0), 0u);
}

TEST_F(SessionTest, AKeptSessionIsThereForTheNextProgram) {
  std::string id;
  {
    client::Session session(connection_, "quick");
    session.Append("hello");
    session.Keep();
    id = session.id();
  }
  {
    const client::Session attached = client::Session::Attach(connection_, id);
    EXPECT_EQ(attached.id(), id);
    EXPECT_EQ(attached.opened().position(), 5u);
  }
  client::Session attached = client::Session::Attach(connection_, id);
  EXPECT_EQ(attached.Append(" again").position(), 11u);
  attached.Close();
  EXPECT_EQ(CodeOf([&] { attached.Info(); }), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(CodeOf([&] { attached.Close(); }), grpc::StatusCode::NOT_FOUND);
}

TEST_F(SessionTest, ASessionThatWasMovedFromClosesNothing) {
  std::optional<client::Session> first(std::in_place, connection_, "quick");
  const std::string id = first->id();
  client::Session second = std::move(*first);
  first.reset();
  EXPECT_EQ(second.id(), id);
  EXPECT_EQ(second.Position(), 0u);

  client::Session third(connection_, "quick");
  const std::string replaced = third.id();
  third = std::move(second);
  EXPECT_EQ(third.id(), id);
  EXPECT_EQ(third.Position(), 0u);
  EXPECT_EQ(CodeOf([&] { client::Session::Attach(connection_, replaced); }),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(SessionTest, OutlivesItsConnection) {
  std::optional<client::Connection> connection(std::in_place, Server().address());
  client::Session session(*connection, "quick");
  connection.reset();
  EXPECT_EQ(session.Append("hello").position(), 5u);
}

TEST_F(SessionTest, AnAnswerComesInPieces) {
  client::Session session(connection_, "quick");
  std::string text;
  const client::Generation answer =
      session.Generate("hello", Options(), [&](std::string_view piece) {
        EXPECT_FALSE(piece.empty());
        text += piece;
      });
  EXPECT_EQ(text, answer.text);
  EXPECT_EQ(answer.token_ids.size(), 12u);
  EXPECT_EQ(answer.finish.position(), 17u);
  EXPECT_EQ(session.Position(), 17u);
  const std::vector<v1::Turn> turns = session.Turns();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].turn_id(), answer.started.turn_id());
  const std::vector<v1::HistoryEntry> history = session.History();
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].text(), "hello");
  // The answer may end within a character, which no piece has.
  EXPECT_EQ(history[1].text().substr(0, text.size()), text);
}

TEST_F(SessionTest, MessagesAreRendered) {
  client::Session session(connection_, "talk");
  const client::Generation answer = session.Generate(client::UserMessage("hi"), Options());
  EXPECT_EQ(answer.started.prompt_tokens(), std::string("[user]hi.[assistant]").size());
}

TEST_F(SessionTest, OtherInputsAreFieldsOfTheRequest) {
  client::Session session(connection_, "quick");
  v1::GenerateRequest request = Options();
  request.mutable_input()->mutable_tokens()->add_ids(65);
  int deltas = 0;
  const client::Generation answer =
      session.Generate(request, [&](const v1::GenerateResponse& response) {
        deltas += response.has_delta() ? 1 : 0;
        return true;
      });
  EXPECT_EQ(answer.started.prompt_tokens(), 1u);
  EXPECT_GE(deltas, 1);
}

TEST_F(SessionTest, AForkAndARewindGiveTheSameTokens) {
  client::Session session(connection_, "dense");
  const uint64_t before = session.Append("def main():").position();
  const client::Generation answer = session.Generate("\n", Options());
  const client::Generation next = session.Generate("\n", Options());

  client::Session at_position = session.ForkAtPosition(before);
  EXPECT_EQ(at_position.Generate("\n", Options()).token_ids, answer.token_ids);
  client::Session at_turn = session.ForkAtTurn(answer.started.turn_id());
  EXPECT_EQ(at_turn.Generate("\n", Options()).token_ids, next.token_ids);
  EXPECT_EQ(session.Fork().Position(), session.Position());

  EXPECT_EQ(session.RewindToTurn(answer.started.turn_id()).position(), answer.finish.position());
  EXPECT_EQ(session.Generate("\n", Options()).token_ids, next.token_ids);
  EXPECT_EQ(session.RewindToPosition(before).position(), before);
  EXPECT_EQ(session.Generate("\n", Options()).token_ids, answer.token_ids);
}

TEST_F(SessionTest, AForkOutlivesItsSource) {
  std::optional<client::Session> session(std::in_place, connection_, "quick");
  session->Append("hello");
  client::Session fork = session->Fork();
  session.reset();
  EXPECT_EQ(fork.Append(" you").position(), 9u);
}

TEST_F(SessionTest, AnExceptionOfTheProgramCancelsTheTurn) {
  client::Session session(connection_, "slow");
  v1::GenerateRequest options = Options();
  options.set_max_tokens(10000);
  const auto stop = [](std::string_view) { throw std::logic_error("enough"); };
  EXPECT_THROW(session.Generate("hello", options, stop), std::logic_error);
  EXPECT_EQ(session.Position(), 0u);
  const std::vector<v1::Turn> turns = session.Turns();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].state(), v1::TURN_STATE_ABANDONED);
}

TEST_F(SessionTest, AnotherThreadCancelsATurn) {
  client::Session session(connection_, "slow");
  v1::GenerateRequest options = Options();
  options.set_max_tokens(10000);
  options.set_turn_id(client::RandomId());
  std::optional<std::thread> other;
  const auto cancel = [&](std::string_view) {
    if (!other) other.emplace([&] { session.CancelTurn(options.turn_id()); });
  };
  EXPECT_EQ(CodeOf([&] { session.Generate("hello", options, cancel); }),
            grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(other);
  other->join();
  EXPECT_EQ(session.Position(), 0u);
}

TEST_F(SessionTest, ErrorsAreThrownAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(CodeOf([&] { client::Session(connection_, "absent"); }), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(CodeOf([&] { client::Session(connection_, "broken"); }), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOf([&] { client::Session::Attach(connection_, kNoSession); }),
            grpc::StatusCode::NOT_FOUND);
  client::Session session(connection_, "quick");
  EXPECT_EQ(CodeOf([&] { session.ForkAtTurn(kNoSession); }), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(CodeOf([&] { session.Generate(client::UserMessage("hi")); }),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(session.Position(), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

// Its connections go through a proxy.
class LostSessionTest : public SessionTest {
 protected:
  LostSessionTest() : proxy_(PortOf(Server().address())), through_(proxy_.address()) {}

  static int PortOf(const std::string& address) {
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  // Runs `call` while the server cannot be reached, and for a while afterwards.
  void RunWhileAway(const std::function<void()>& call) {
    proxy_.Refuse();
    std::thread back([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      proxy_.Listen();
    });
    EXPECT_NO_THROW(call());
    back.join();
  }

  DroppingProxy proxy_;
  client::Connection through_;
};

TEST_F(LostSessionTest, EachCallGoesOnByItself) {
  client::Session session(through_, "quick");
  std::optional<client::Session> opened;
  std::optional<client::Session> fork;
  RunWhileAway([&] { opened.emplace(through_, "quick"); });
  RunWhileAway([&] { EXPECT_EQ(session.Append("hello").position(), 5u); });
  RunWhileAway([&] { EXPECT_EQ(session.Generate("", Options()).finish.position(), 17u); });
  RunWhileAway([&] { fork.emplace(session.ForkAtPosition(7)); });
  RunWhileAway([&] { EXPECT_EQ(fork->Position(), 7u); });
  RunWhileAway([&] { EXPECT_EQ(session.RewindToPosition(5).position(), 5u); });
  RunWhileAway([&] { EXPECT_GE(session.Turns().size(), 1u); });
  EXPECT_EQ(connection_.Sessions("quick").size(), 3u) << "a call has had its effect twice";
}

TEST_F(LostSessionTest, GivesUpAfterTheTimeout) {
  through_.set_resume_timeout(std::chrono::milliseconds(0));
  client::Session session(through_, "quick");
  proxy_.Refuse();
  EXPECT_EQ(CodeOf([&] { session.Append("hello"); }), grpc::StatusCode::UNAVAILABLE);
  proxy_.Listen();
  through_.WaitUntilServing("quick", std::chrono::seconds(60));
}

TEST_F(LostSessionTest, TellsThatASessionCouldNotBeClosed) {
  std::string told;
  std::string id;
  {
    client::Session session(through_, "quick");
    id = session.id();
    session.set_on_close_failed(
        [&](const std::string& lost, const client::CallError&) { told = lost; });
    proxy_.Refuse();
  }
  EXPECT_EQ(told, id);
  connection_.Close(id);
}

TEST_F(LostSessionTest, AnAddressThatHasNeverAnsweredIsAnErrorAtOnce) {
  proxy_.Refuse();
  const client::Connection nowhere(proxy_.address());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(CodeOf([&] { client::Session(nowhere, "quick"); }), grpc::StatusCode::UNAVAILABLE);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace longstream
