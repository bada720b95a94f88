// A server with a store is killed (SIGKILL) and started again: sessions return to earlier places,
// go on with another model, and list all their turns as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using client::CallError;
using client::Connection;
using client::Generation;
using testing::HasSubstr;

constexpr uint32_t kPlaceTokens = 12;

constexpr char kTokenizer[] = R"({
  "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "added_tokens": [],
  "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
  "model": {"type": "BPE", "dropout": null, "unk_token": "a", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": {"a": 0, "b": 1}, "merges": []}
})";

// Two models, "m" and "n", with the same tokenizer, and "o" with another one.
class KilledPlacesTest : public testing::Test {
 protected:
  KilledPlacesTest() {
    other_.Write("config.json", R"({"model_type": "minimal", "seed": 7})");
    foreign_.Write("config.json", R"({"model_type": "minimal"})");
    foreign_.Write("tokenizer.json", kTokenizer);
    // It leaves out the text of a message up to "|" when another message follows.
    minimal_.Write("chat_template.jinja",
                   "{% for m in messages %}<{{ m.role }}>"
                   "{{ m.content if loop.last else m.content.split('|')[-1] }}{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}");
    Start();
  }

  void Start() {
    std::vector<std::string> arguments = {"--store", store_, "--config",
                                          directory_.string() + "/server.yaml"};
    directory_.Write("server.yaml", "sessions: {on_model_change: " + on_model_change_ + "}\n");
    for (const std::string& model :
         {minimal_.Flag(",options.utf8=true"), "n=" + other_.string() + ",options.utf8=true",
          "o=" + foreign_.string()}) {
      arguments.insert(arguments.end(), {"--model", model});
    }
    server_ = std::make_unique<ServerProcess>(kServerBinary, arguments);
    connection_ = std::make_unique<Connection>(server_->address());
    for (const char* model : {"m", "n", "o"}) {
      connection_->WaitUntilServing(model, std::chrono::seconds(60));
    }
  }
  void KillAndStart() {
    server_->Signal(SIGKILL);
    server_->Wait();
    Start();
  }

  static v1::GenerateRequest Request(const std::string& session, const std::string& id) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.set_max_tokens(kPlaceTokens);
    request.mutable_sampling()->set_temperature(1.0f);
    request.mutable_sampling()->set_seed(5);
    request.set_turn_id(id);
    return request;
  }
  Generation Turn(const std::string& session, const std::string& text,
                  const std::string& id = client::RandomId()) {
    v1::GenerateRequest request = Request(session, id);
    if (!text.empty()) request.mutable_input()->set_text(text);
    return connection_->Generate(request);
  }
  Generation Chat(const std::string& session, const std::string& text,
                  const std::string& id = client::RandomId()) {
    v1::GenerateRequest request = Request(session, id);
    v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content(text);
    return connection_->Generate(request);
  }

  // Three turns; the ids and the answers are in turns_.
  std::string OpenWithTurns() {
    std::string id = connection_->Open("m").session_id();
    for (const char* text : {"one ", "two ", "three "}) {
      ids_.push_back(client::RandomId());
      turns_.push_back(Turn(id, text, ids_.back()));
    }
    return id;
  }

  const MinimalModelDirectory minimal_;
  const TemporaryDirectory other_;
  const TemporaryDirectory foreign_;
  const TemporaryDirectory directory_;
  const std::string store_ = directory_.string() + "/store";
  std::string on_model_change_ = "refuse";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::string> ids_;
  std::vector<Generation> turns_;
};

TEST_F(KilledPlacesTest, ARewindOutlivesTheServer) {
  const std::string id = OpenWithTurns();
  KillAndStart();
  const v1::Session rewound = connection_->RewindToTurn(id, ids_[0]);
  EXPECT_EQ(rewound.position(), turns_[0].finish.position());
  KillAndStart();
  EXPECT_EQ(connection_->Get(id).position(), turns_[0].finish.position());
  EXPECT_EQ(connection_->Get(id).head_turn_id(), ids_[0]);
  const Generation again = Turn(id, "two ");
  EXPECT_EQ(again.token_ids, turns_[1].token_ids);
  EXPECT_EQ(Turn(id, "two ", ids_[1]).started.how(), v1::ATTACH_REPLAYED);
  // A turn that the history has not any more.
  KillAndStart();
  connection_->RewindToTurn(id, ids_[1]);
  EXPECT_EQ(Turn(id, "three ").token_ids, turns_[2].token_ids);
}

TEST_F(KilledPlacesTest, APositionWithinATurnOutlivesTheServer) {
  const std::string id = OpenWithTurns();
  const uint64_t position = turns_[1].finish.position() - 4;
  EXPECT_EQ(connection_->RewindToPosition(id, position).position(), position);
  v1::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_position(position - 3);
  const std::string fork = connection_->Fork(request).session_id();
  const Generation undisturbed = Turn(id, "more");
  connection_->RewindToPosition(id, position);
  KillAndStart();
  EXPECT_EQ(connection_->Get(id).position(), position);
  EXPECT_EQ(connection_->Get(fork).position(), position - 3);
  EXPECT_EQ(Turn(id, "more").token_ids, undisturbed.token_ids);
  KillAndStart();
  EXPECT_EQ(connection_->Get(id).position(), position + 4 + kPlaceTokens);
  EXPECT_EQ(Turn(fork, "more").finish.position(), position - 3 + 4 + kPlaceTokens);
  // The turn that was cut is still whole.
  EXPECT_EQ(connection_->RewindToTurn(id, ids_[1]).position(), turns_[1].finish.position());
  EXPECT_EQ(Turn(id, "three ").token_ids, turns_[2].token_ids);
}

TEST_F(KilledPlacesTest, AllTurnsAreListed) {
  const std::string id = OpenWithTurns();
  connection_->RewindToTurn(id, ids_[0]);
  const std::string other = client::RandomId();
  Turn(id, "other ", other);
  KillAndStart();
  const std::vector<v1::Turn> turns = connection_->Turns(id);
  ASSERT_EQ(turns.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(turns[i].turn_id(), ids_[i]);
    EXPECT_EQ(turns[i].state(), v1::TURN_STATE_COMMITTED);
    EXPECT_EQ(turns[i].position(), turns_[i].finish.position());
    EXPECT_EQ(turns[i].generated_tokens(), kPlaceTokens);
    EXPECT_EQ(turns[i].finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
  }
  EXPECT_EQ(turns[3].turn_id(), other);
  EXPECT_EQ(turns[3].start_position(), turns_[0].finish.position());
}

TEST_F(KilledPlacesTest, AForkGoesOnWithAnotherModel) {
  const std::string id = OpenWithTurns();
  v1::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_model("n");
  request.set_turn_id(ids_[1]);
  const v1::Session fork = connection_->Fork(request);
  EXPECT_EQ(fork.model(), "n");
  EXPECT_EQ(fork.position(), turns_[1].finish.position());
  EXPECT_EQ(fork.recompute_tokens(), fork.position() - 1);
  KillAndStart();
  const Generation first = Turn(fork.session_id(), "three ");
  EXPECT_NE(first.token_ids, turns_[2].token_ids) << "the models draw different tokens";
  EXPECT_EQ(first.finish.usage().recompute_reason(), "the session was forked onto another model");
  // A session of the other model that was told the same tokens.
  const std::string control = connection_->Open("n").session_id();
  v1::GenerateRequest whole;
  whole.set_session_id(control);
  // The tokens are bytes.
  auto* tokens = whole.mutable_input()->mutable_tokens()->mutable_ids();
  const std::string texts[] = {"one ", "two ", "three "};
  for (size_t i = 0; i < 3; ++i) {
    for (const char byte : texts[i]) tokens->Add(static_cast<unsigned char>(byte));
    if (i < 2) tokens->Add(turns_[i].token_ids.begin(), turns_[i].token_ids.end());
  }
  whole.set_max_tokens(kPlaceTokens);
  whole.mutable_sampling()->set_temperature(1.0f);
  whole.mutable_sampling()->set_seed(5);
  EXPECT_EQ(connection_->Generate(whole).token_ids, first.token_ids);
  KillAndStart();
  EXPECT_EQ(connection_->RewindToTurn(fork.session_id(), ids_[0]).position(),
            turns_[0].finish.position())
      << "a turn of the source";
  EXPECT_GT(Turn(fork.session_id(), "two ").finish.position(), 0u);
}

TEST_F(KilledPlacesTest, AForkOntoAModelWithAnotherTokenizerIsRefusedByName) {
  const std::string id = OpenWithTurns();
  v1::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_model("o");
  for (int i = 0; i < 2; ++i) {
    try {
      connection_->Fork(request);
      ADD_FAILURE() << "the tokens mean nothing to the model";
    } catch (const CallError& error) {
      EXPECT_EQ(error.code_name(), "FAILED_PRECONDITION");
      EXPECT_THAT(error.what(), HasSubstr("model: o has another tokenizer than m"));
    }
    EXPECT_EQ(connection_->Sessions("").size(), 1u);
    if (i == 0) KillAndStart();
  }
  EXPECT_GT(Turn(id, "more").finish.position(), turns_[2].finish.position());
}

TEST_F(KilledPlacesTest, AHistoryThatWasRewrittenIsThereAsItWas) {
  const std::string id = connection_->Open("m").session_id();
  const std::string texts[] = {"um|one", "er|two", "oh|three"};
  for (const std::string& text : texts) {
    ids_.push_back(client::RandomId());
    turns_.push_back(Chat(id, text, ids_.back()));
  }
  const auto expect_same = [&](const Generation& again, size_t turn) {
    EXPECT_EQ(again.token_ids, turns_[turn].token_ids);
    EXPECT_EQ(again.started.position(), turns_[turn].started.position());
    EXPECT_EQ(again.finish.position(), turns_[turn].finish.position());
  };
  for (size_t turn = 1; turn < 3; ++turn) {
    ASSERT_LT(turns_[turn].started.position(), turns_[turn - 1].finish.position());
  }
  const Generation fourth = Chat(id, "last");

  KillAndStart();
  EXPECT_EQ(connection_->RewindToTurn(id, ids_[2]).position(), turns_[2].finish.position());
  KillAndStart();
  EXPECT_EQ(Chat(id, "last").token_ids, fourth.token_ids);
  v1::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_turn_id(ids_[0]);
  const std::string fork = connection_->Fork(request).session_id();
  KillAndStart();
  expect_same(Chat(fork, texts[1]), 1);
  KillAndStart();
  expect_same(Chat(fork, texts[2]), 2);
  EXPECT_EQ(connection_->RewindToTurn(id, ids_[1]).position(), turns_[1].finish.position());
  expect_same(Chat(id, texts[2]), 2);
}

TEST_F(KilledPlacesTest, AModelThatHasChangedReadsTheSessionAnewOrRefuses) {
  const std::string id = OpenWithTurns();
  minimal_.Write("config.json", R"({"model_type": "minimal", "seed": 9})");
  KillAndStart();
  try {
    Turn(id, "more");
    ADD_FAILURE() << "the session has caches of another model";
  } catch (const CallError& error) {
    EXPECT_EQ(error.code_name(), "FAILED_PRECONDITION");
    EXPECT_THAT(error.what(), HasSubstr("sessions.on_model_change"));
  }
  on_model_change_ = "recompute";
  KillAndStart();
  const Generation more = Turn(id, "more");
  EXPECT_EQ(more.finish.usage().recompute_reason(),
            "the weights or the caches of the model have changed");
  EXPECT_EQ(more.finish.usage().recomputed_tokens(), turns_[2].finish.position() - 1);
  on_model_change_ = "refuse";
  KillAndStart();
  EXPECT_GT(Turn(id, "more").finish.position(), more.finish.position())
      << "the present model ran the last turn";
}

TEST_F(KilledPlacesTest, TheCommandListsTurnsForksAndRewinds) {
  const std::string id = OpenWithTurns();
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_->address(), "sessions"});
    ClientProcess process(arguments);
    EXPECT_EQ(process.Wait(), 0) << process.err();
    return process.out();
  };
  for (const std::string& turn : ids_) EXPECT_THAT(run({"turns", id}), HasSubstr(turn));
  const std::string history = run({"history", id});
  for (const Generation& turn : turns_) EXPECT_THAT(history, HasSubstr(turn.text));
  const std::string fork = run({"fork", id, "--turn", ids_[0]}).substr(0, 32);
  EXPECT_EQ(connection_->Get(fork).position(), turns_[0].finish.position());
  EXPECT_EQ(connection_->Get(run({"fork", id, "--on", "n"}).substr(0, 32)).model(), "n");
  run({"rewind", id, "--position", "7"});
  EXPECT_EQ(connection_->Get(id).position(), 7u);
  ClientProcess nowhere({"--server", server_->address(), "sessions", "rewind", id});
  EXPECT_EQ(nowhere.Wait(), 2) << "it names no place";
}

}  // namespace
}  // namespace longstream
