// Sessions return to earlier places: RewindSession and ForkSession, in memory and in a store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/server/turn_input.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/server/server_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

std::string TurnIdOf(int number) {
  const std::string digits = std::to_string(number);
  return std::string(32 - digits.size(), '0') + digits;
}

// A store in a directory of its own, or none.
class Stores {
 protected:
  explicit Stores(bool has_store) {
    if (!has_store) return;
    auto opened = store::SqliteStore::Open(directory_.string() + "/store", {});
    EXPECT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
  }

  SessionManager::Options Options() const {
    SessionManager::Options options;
    options.store = store_.get();
    options.commits = commits_.get();
    options.render_messages = RenderLoggedMessages;
    return options;
  }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<store::SessionStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
};

// The parameter: whether the sessions are in a store.
class ServerPlacesTest : public Stores,
                         public ServerTest,
                         public testing::WithParamInterface<bool> {
 protected:
  explicit ServerPlacesTest(const std::string& chat_template = "")
      : Stores(GetParam()),
        ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens,
                   chat_template, 0, Options()) {}

  v1::GenerateRequest Turn(const std::string& session, int number, const std::string& text) const {
    v1::GenerateRequest request = Request(session);
    request.mutable_input()->set_text(text);
    request.set_turn_id(TurnIdOf(number));
    return request;
  }
  // Three turns of 10 tokens each.
  std::string OpenWithTurns() {
    const std::string id = Open();
    for (int number = 1; number <= 3; ++number) {
      turns_[number] = Generate(Turn(id, number, "hello"));
      EXPECT_TRUE(turns_[number].status.ok()) << turns_[number].status.error_message();
    }
    return id;
  }

  grpc::Status Rewind(const v1::RewindSessionRequest& request) {
    grpc::ClientContext context;
    return stub().RewindSession(&context, request, &session_);
  }
  grpc::Status RewindToTurn(const std::string& id, int number) {
    v1::RewindSessionRequest request;
    request.set_session_id(id);
    request.set_turn_id(TurnIdOf(number));
    return Rewind(request);
  }
  grpc::Status RewindToPosition(const std::string& id, uint64_t position) {
    v1::RewindSessionRequest request;
    request.set_session_id(id);
    request.set_position(position);
    return Rewind(request);
  }
  grpc::Status Fork(const v1::ForkSessionRequest& request) {
    grpc::ClientContext context;
    return stub().ForkSession(&context, request, &session_);
  }

  Generated turns_[4];
  v1::Session session_;  // the answer of the last Rewind or Fork
};

INSTANTIATE_TEST_SUITE_P(Places, ServerPlacesTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Stored" : "InMemory"; });

TEST_P(ServerPlacesTest, ATurnAfterARewindIsThatOfAnUndisturbedSession) {
  const std::string id = OpenWithTurns();
  for (const int number : {2, 1}) {
    SCOPED_TRACE(number);
    const grpc::Status status = RewindToTurn(id, number);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(session_.position(), turns_[number].finish.position());
    EXPECT_EQ(session_.head_turn_id(), TurnIdOf(number));
    // The minimal backend has a state, which cannot go back.
    const bool has_store = GetParam();
    if (!has_store) {
      EXPECT_EQ(session_.recompute_tokens(), session_.position() - 1);
    }
    EXPECT_EQ(Get(id).position(), session_.position());
    const Generated again = Generate(Turn(id, 10 + number, "hello"));
    ASSERT_TRUE(again.status.ok()) << again.status.error_message();
    EXPECT_EQ(again.tokens, turns_[number + 1].tokens);
    const v1::TurnUsage& usage = again.finish.usage();
    EXPECT_EQ(usage.recomputed_tokens(), session_.recompute_tokens());
    EXPECT_EQ(usage.recomputed_tokens() + usage.restored_tokens(), session_.position() - 1);
    if (usage.recomputed_tokens() > 0) {
      EXPECT_EQ(usage.recompute_reason(), "the session returned to an earlier place");
    }
  }
}

TEST_P(ServerPlacesTest, TurnsThatWereRewoundPastReplay) {
  const std::string id = OpenWithTurns();
  ASSERT_TRUE(RewindToTurn(id, 1).ok());
  const Generated replayed = Generate(Turn(id, 3, "hello"));
  ASSERT_TRUE(replayed.status.ok()) << replayed.status.error_message();
  EXPECT_EQ(replayed.started.how(), v1::ATTACH_REPLAYED);
  EXPECT_EQ(replayed.tokens, turns_[3].tokens);
  EXPECT_EQ(Get(id).position(), turns_[1].finish.position());
}

TEST_P(ServerPlacesTest, ForksBeginAtATurnOrAPosition) {
  const std::string id = OpenWithTurns();
  v1::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_turn_id(TurnIdOf(1));
  request.set_new_session_id(TurnIdOf(77));
  grpc::Status status = Fork(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(session_.position(), turns_[1].finish.position());
  EXPECT_EQ(session_.forked_from(), id);
  ASSERT_TRUE(Fork(request).ok()) << "an equal repeat";
  EXPECT_EQ(Generate(Turn(session_.session_id(), 2, "hello")).tokens, turns_[2].tokens);
  EXPECT_EQ(Get(id).position(), turns_[3].finish.position()) << "the source stays";
  request.set_turn_id(TurnIdOf(2));
  EXPECT_EQ(Fork(request).error_code(), StatusCode::ALREADY_EXISTS) << "another place";

  // The source's text up to the middle of the second answer, in a session of its own.
  const uint64_t position = turns_[1].finish.position() + 5 + 4;
  request.clear_new_session_id();
  request.set_position(position);
  status = Fork(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(session_.position(), position);
  v1::GenerateRequest more = Request(session_.session_id());
  more.clear_input();
  more.set_max_tokens(6);
  more.mutable_sampling()->set_seed(1);
  const Generated rest = Generate(more);
  ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
  // The first token is drawn at the same place of the same answer.
  EXPECT_EQ(Get(session_.session_id()).position(), position + 6);
}

TEST_P(ServerPlacesTest, APositionIsAPlaceToo) {
  const std::string id = OpenWithTurns();
  const uint64_t end = turns_[1].finish.position();
  ASSERT_TRUE(RewindToPosition(id, end).ok());
  EXPECT_EQ(session_.head_turn_id(), TurnIdOf(1));
  EXPECT_EQ(Generate(Turn(id, 11, "hello")).tokens, turns_[2].tokens);
  ASSERT_TRUE(RewindToPosition(id, end - 3).ok());
  EXPECT_EQ(session_.position(), end - 3);
  const Generated shorter = Generate(Turn(id, 12, "hello"));
  ASSERT_TRUE(shorter.status.ok()) << shorter.status.error_message();
  EXPECT_EQ(shorter.finish.position(), end - 3 + 15);
  ASSERT_TRUE(RewindToPosition(id, end - 3).ok());
  EXPECT_EQ(Generate(Turn(id, 13, "hello")).tokens, shorter.tokens);
  ASSERT_TRUE(RewindToPosition(id, 0).ok());
  EXPECT_EQ(session_.position(), 0u);
  EXPECT_EQ(session_.head_turn_id(), "");
  EXPECT_EQ(Generate(Turn(id, 14, "hello")).tokens, turns_[1].tokens);
}

TEST_P(ServerPlacesTest, ATurnOffTheHistoryIsAPlaceInAStore) {
  const std::string id = OpenWithTurns();
  ASSERT_TRUE(RewindToTurn(id, 1).ok());
  ASSERT_TRUE(Generate(Turn(id, 4, "other")).status.ok());
  const grpc::Status status = RewindToTurn(id, 2);
  if (GetParam()) {
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(session_.position(), turns_[2].finish.position());
    EXPECT_EQ(Generate(Turn(id, 5, "hello")).tokens, turns_[3].tokens);
  } else {
    EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), HasSubstr("not in the session's history any more"));
  }
}

TEST_P(ServerPlacesTest, ErrorsNameTheFieldAndChangeNothing) {
  const std::string id = OpenWithTurns();
  v1::RewindSessionRequest request;
  request.set_session_id(id);
  grpc::Status status = Rewind(request);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("at: expected a turn_id or a position"));
  status = RewindToTurn(id, 9);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("turn_id: no turn " + TurnIdOf(9)));
  status = RewindToPosition(id, 46);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("position: expected 0 ... 45, found 46"));
  request.set_turn_id("xyz");
  EXPECT_THAT(Rewind(request).error_message(), HasSubstr("turn_id"));
  request.set_turn_id(TurnIdOf(1));
  request.set_expected_version(Get(id).version() + 1);
  status = Rewind(request);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("expected_version: the session has version"));
  EXPECT_EQ(RewindToTurn(TurnIdOf(5), 1).error_code(), StatusCode::NOT_FOUND);
  v1::ForkSessionRequest fork;
  fork.set_session_id(id);
  fork.set_model("none");
  EXPECT_EQ(Fork(fork).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Get(id).position(), 45u);
  request.set_expected_version(Get(id).version());
  EXPECT_TRUE(Rewind(request).ok());
  EXPECT_GT(session_.version(), request.expected_version());
  const uint64_t version = session_.version();
  request.clear_expected_version();
  ASSERT_TRUE(Rewind(request).ok());
  EXPECT_EQ(session_.version(), version) << "the session is there already";
}

TEST_P(ServerPlacesTest, ATurnWithADrawnIdIsAPlace) {
  const std::string id = Open();
  const Generated first = Generate(Request(id));
  const Generated second = Generate(Request(id));
  ASSERT_TRUE(second.status.ok());
  v1::RewindSessionRequest request;
  request.set_session_id(id);
  request.set_turn_id(first.started.turn_id());
  const grpc::Status status = Rewind(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(session_.head_turn_id(), first.started.turn_id());
  EXPECT_EQ(Generate(Request(id)).tokens, second.tokens);
}

// In memory a turn with a drawn id has a record only while it runs. A client that names such a turn
// later gets it from the store; then its record stays with the session, once.
TEST_P(ServerPlacesTest, CancelledTurnsWithDrawnIdsLeaveNothingInMemory) {
  const std::string id = Open();
  v1::GenerateRequest request = Request(id);
  request.set_max_tokens(100000);
  std::vector<std::string> turns;
  const auto cancel = [&](const std::string& turn) {
    grpc::ClientContext context;
    v1::CancelTurnRequest named;
    v1::Turn response;
    named.set_session_id(id);
    named.set_turn_id(turn);
    const grpc::Status status = stub().CancelTurn(&context, named, &response);
    EXPECT_TRUE(!status.ok() || response.state() == v1::TURN_STATE_ABANDONED);
    return status.error_code();
  };
  const auto held = [this] { return models().host_memory()->held_bytes(); };
  uint64_t after_one = 0;
  for (int i = 0; i < 10; ++i) {
    Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
      if (!response.has_started()) return;
      turns.push_back(response.started().turn_id());
      EXPECT_EQ(cancel(turns.back()), StatusCode::OK);
    });
    WaitUntilIdle(id);
    if (i == 0) after_one = held();
  }
  ASSERT_EQ(turns.size(), 10u);
  // The store abandons the last ones a moment later.
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (held() > after_one && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_LE(held(), after_one);
  const StatusCode again = GetParam() ? StatusCode::OK : StatusCode::NOT_FOUND;
  for (const std::string& turn : turns) EXPECT_EQ(cancel(turn), again);
  const uint64_t with_records = held();
  for (const std::string& turn : turns) EXPECT_EQ(cancel(turn), again);
  EXPECT_LE(held(), with_records) << "a turn that is named again has one record";
}

// The text that no delta has is not in the session; the answer is the same when it is replayed.
TEST_P(ServerPlacesTest, DroppedStopTextIsNotInTheSession) {
  const std::string id = Open();
  v1::GenerateRequest request = Turn(id, 1, "hello");
  request.set_max_tokens(40);
  const Generated whole = Generate(request);
  ASSERT_EQ(whole.text.size(), 40u);
  const std::string second = Open();
  request.set_session_id(second);
  request.mutable_stop()->add_strings(whole.text.substr(20, 3));
  request.mutable_stop()->set_stop_text(v1::STOP_TEXT_DROP);
  const Generated stopped = Generate(request);
  ASSERT_EQ(stopped.finish.reason(), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(stopped.finish.kept_text_bytes(), 0u);
  EXPECT_EQ(stopped.finish.position(), 5 + stopped.text.size());
  EXPECT_EQ(Get(second).position(), stopped.finish.position());
  const Generated replayed = Generate(request);
  EXPECT_EQ(replayed.started.how(), v1::ATTACH_REPLAYED);
  EXPECT_EQ(replayed.tokens, stopped.tokens);
  EXPECT_EQ(replayed.text, stopped.text);
  EXPECT_EQ(replayed.finish.reason(), stopped.finish.reason());
  EXPECT_EQ(replayed.finish.position(), stopped.finish.position());
  EXPECT_EQ(replayed.finish.stop_string(), stopped.finish.stop_string());
  EXPECT_EQ(replayed.finish.usage().generated_tokens(), stopped.finish.usage().generated_tokens());
  ASSERT_TRUE(RewindToTurn(second, 1).ok());
  EXPECT_TRUE(Generate(Turn(second, 2, "more")).status.ok());
}

// The template leaves out the text of a message up to "|" when another message follows.
class RewrittenPlacesTest : public ServerPlacesTest {
 protected:
  RewrittenPlacesTest()
      : ServerPlacesTest(
            "{% for m in messages %}<{{ m.role }}>"
            "{{ m.content if loop.last else m.content.split('|')[-1] }}{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}") {}

  v1::GenerateRequest Chat(const std::string& session, int number, const std::string& text) const {
    v1::GenerateRequest request = Turn(session, number, "");
    v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content(text);
    return request;
  }
  std::string OpenWithChat() {
    const std::string id = Open();
    for (int number = 1; number <= 3; ++number) {
      turns_[number] = Generate(Chat(id, number, texts_[number]));
      EXPECT_TRUE(turns_[number].status.ok()) << turns_[number].status.error_message();
    }
    for (int number = 2; number <= 3; ++number) {
      EXPECT_LT(turns_[number].started.position(), turns_[number - 1].finish.position())
          << "the history was not rewritten";
    }
    return id;
  }
  void ExpectSame(const Generated& again, int number) {
    ASSERT_TRUE(again.status.ok()) << again.status.error_message();
    EXPECT_EQ(again.tokens, turns_[number].tokens);
    EXPECT_EQ(again.started.position(), turns_[number].started.position());
    EXPECT_EQ(again.finish.position(), turns_[number].finish.position());
  }

  const std::string texts_[4] = {"", "um|one", "er|two", "oh|three"};
};

INSTANTIATE_TEST_SUITE_P(Places, RewrittenPlacesTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Stored" : "InMemory"; });

TEST_P(RewrittenPlacesTest, OnlyAStoreKnowsTheHistoryBeforeItWasRewritten) {
  const std::string id = OpenWithChat();
  for (const int number : {2, 1}) {
    SCOPED_TRACE(number);
    const grpc::Status rewound = RewindToTurn(id, number);
    if (!GetParam()) {
      EXPECT_EQ(rewound.error_code(), StatusCode::FAILED_PRECONDITION);
      EXPECT_THAT(rewound.error_message(), HasSubstr("only a session with DURABILITY_TURN"));
      continue;
    }
    ASSERT_TRUE(rewound.ok()) << rewound.error_message();
    EXPECT_EQ(session_.position(), turns_[number].finish.position());
    ExpectSame(Generate(Chat(id, 10 + number, texts_[number + 1])), number + 1);
  }
}

TEST_P(RewrittenPlacesTest, AForkAtATurnGoesOnAsTheSourceDid) {
  const std::string id = OpenWithChat();
  v1::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_turn_id(TurnIdOf(GetParam() ? 1 : 3));
  const grpc::Status status = Fork(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::string fork = session_.session_id();
  if (GetParam()) {
    EXPECT_EQ(session_.position(), turns_[1].finish.position());
    ExpectSame(Generate(Chat(fork, 12, texts_[2])), 2);
    ExpectSame(Generate(Chat(fork, 13, texts_[3])), 3);
  }
  const Generated more = Generate(Chat(id, 20, "and|more"));
  ASSERT_TRUE(more.status.ok()) << more.status.error_message();
  EXPECT_LT(more.started.position(), turns_[3].finish.position());
  EXPECT_EQ(Generate(Chat(fork, 20, "and|more")).tokens, more.tokens);
}

}  // namespace
}  // namespace longstream
