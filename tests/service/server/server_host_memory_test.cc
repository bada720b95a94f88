// The host's memory that sessions hold: told, limited and given back, over gRPC.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kHostLimit = 1 << 20;
constexpr size_t kBig = 10000;
constexpr size_t kMember = 60000;  // a request may have 65536 bytes

class ServerHostMemoryTest : public ServerTest {
 protected:
  explicit ServerHostMemoryTest(uint64_t limit = kHostLimit, uint64_t conversation_limit = 0)
      : ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens,
                   "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}", limit, {},
                   conversation_limit) {}

  uint64_t Held() const { return models().host_memory()->held_bytes(); }
  // Turns give their memory back a little later than the client gets their end.
  void ExpectHeld(uint64_t bytes) {
    for (int i = 0; i < 5000 && Held() != bytes; ++i) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(Held(), bytes);
  }

  v1::GenerateRequest ChatRequest(const std::string& id, const std::string& content,
                                  const std::string& json = "") {
    v1::GenerateRequest request = Request(id);
    v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content(content);
    message->set_json(json);
    return request;
  }
  static std::string Member(size_t bytes) {
    return "{\"unread\":\"" + std::string(bytes, 'x') + "\"}";
  }

  // Gives the session this many members that the template does not print.
  void Fill(const std::string& id, int members) {
    for (int i = 0; i < members; ++i) {
      const Generated turn = Generate(ChatRequest(id, "a", Member(kMember)));
      ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
    }
  }

  static void ExpectRefused(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("sessions.host_bytes: "));
    EXPECT_THAT(status.error_message(), HasSubstr("the limit is " + std::to_string(kHostLimit)));
  }
};

// Every field with which a turn can give a conversation something that the session keeps. A new
// field of the contract must be added here.
TEST_F(ServerHostMemoryTest, EveryFieldThatASessionKeepsIsTold) {
  const std::string text(kBig, 'x');
  using Setter = void (*)(const std::string&, v1::Messages*);
  // nullptr: a session keeps at most a few bytes for the field.
  const std::map<std::string, Setter> fields = {
      {"Messages.messages", nullptr},
      {"Messages.tools",
       [](const std::string& big, v1::Messages* messages) {
         messages->set_tools("[{\"a\":\"" + big + "\"}]");
       }},
      {"Messages.template_arguments",
       [](const std::string& big, v1::Messages* messages) {
         messages->set_template_arguments("{\"a\":\"" + big + "\",\"documents\":[{\"b\":\"" + big +
                                          "\"}]}");
       }},
      {"Messages.add_generation_prompt", nullptr},
      {"Messages.continue_final_message", nullptr},
      {"Messages.whole_conversation", nullptr},
      {"Messages.require_unchanged", nullptr},
      {"Message.role", nullptr},  // at most 64 bytes
      {"Message.content",
       [](const std::string& big, v1::Messages* messages) {
         messages->mutable_messages(0)->set_content(big);
       }},
      {"Message.json",
       [](const std::string& big, v1::Messages* messages) {
         messages->mutable_messages(0)->set_json("{\"a\":\"" + big + "\"}");
       }},
  };
  size_t found = 0;
  for (const auto* type : {v1::Messages::descriptor(), v1::Message::descriptor()}) {
    for (int i = 0; i < type->field_count(); ++i) {
      const std::string name = type->name() + "." + type->field(i)->name();
      ASSERT_EQ(fields.count(name), 1u) << name << " is new; does a session keep it?";
      ++found;
    }
  }
  EXPECT_EQ(found, fields.size());
  for (const auto& [name, fill] : fields) {
    if (fill == nullptr) continue;
    const std::string id = Open();
    const uint64_t before = Get(id).bytes().host();
    v1::GenerateRequest request = ChatRequest(id, "a");
    fill(text, request.mutable_input()->mutable_messages());
    const Generated turn = Generate(request);
    ASSERT_TRUE(turn.status.ok()) << name << ": " << turn.status.error_message();
    EXPECT_GE(Get(id).bytes().host(), before + kBig) << name;
    EXPECT_EQ(turn.finish.usage().bytes().host(), Get(id).bytes().host()) << name;
    Close(id);
  }
  ExpectHeld(0);
}

TEST_F(ServerHostMemoryTest, ConversationsBeyondTheLimitAreRefused) {
  const std::string id = Open();
  grpc::Status status;
  int turns = 0;
  uint64_t position = 0;
  for (; turns < 100 && status.ok(); ++turns) {
    const Generated turn = Generate(ChatRequest(id, "a", Member(kMember)));
    status = turn.status;
    if (status.ok()) position = turn.finish.position();
  }
  EXPECT_GE(turns, 15);
  EXPECT_LE(turns, 18);
  ExpectRefused(status);
  EXPECT_THAT(status.error_message(), HasSubstr("input.messages: "));
  EXPECT_EQ(Get(id).position(), position);
  EXPECT_LE(Held(), kHostLimit);
  const std::string other = Open();
  ExpectRefused(Generate(ChatRequest(other, "a", Member(kMember))).status);
  EXPECT_TRUE(Generate(ChatRequest(id, "more")).status.ok()) << "there is room for a small message";
  Close(id);
  ExpectHeld(Get(other).bytes().host());
  EXPECT_TRUE(Generate(ChatRequest(other, "a", Member(kMember))).status.ok());
  Close(other);
  ExpectHeld(0);
}

class ConversationLimitTest : public ServerHostMemoryTest {
 protected:
  static constexpr uint64_t kConversation = 300000;
  ConversationLimitTest() : ServerHostMemoryTest(kHostLimit, kConversation) {}
};

// One session cannot take the memory of all.
TEST_F(ConversationLimitTest, OneConversationBeyondItsLimitIsRefused) {
  const std::string id = Open();
  Fill(id, 4);
  const uint64_t before = Get(id).bytes().host();
  const uint64_t position = Get(id).position();
  EXPECT_LE(before, kConversation + 10000);
  const grpc::Status status = Generate(ChatRequest(id, "a", Member(kMember))).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(
      status.error_message(),
      HasSubstr("sessions.conversation_bytes: the conversation of the session would take "));
  EXPECT_THAT(status.error_message(), HasSubstr("the limit is " + std::to_string(kConversation)));
  WaitUntilIdle(id);
  EXPECT_EQ(Get(id).bytes().host(), before);
  EXPECT_EQ(Get(id).position(), position);
  const std::string other = Open();
  Fill(other, 4);
  Close(id);
  Close(other);
  ExpectHeld(0);
}

TEST_F(ServerHostMemoryTest, ACancelledTurnGivesItsMemoryBack) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(ChatRequest(id, "a", Member(50000))).status.ok());
  ExpectHeld(Get(id).bytes().host());
  const uint64_t before = Held();
  v1::GenerateRequest request = ChatRequest(id, std::string(5000, 'c'), Member(50000));
  request.set_max_tokens(20000);
  Generate(request, [](const v1::GenerateResponse& response, grpc::ClientContext* context) {
    if (response.has_delta()) context->TryCancel();
  });
  WaitUntilIdle(id);
  // The vectors of tokens may keep some room.
  for (int i = 0; i < 5000 && Held() > before + 2000; ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_LE(Held(), before + 2000);
  EXPECT_EQ(Get(id).bytes().host(), Held());
  Close(id);
  ExpectHeld(0);
}

TEST_F(ServerHostMemoryTest, SessionsBeyondTheLimitAreRefused) {
  std::vector<std::string> ids;
  grpc::Status status;
  while (status.ok() && ids.size() < 5000) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    v1::Session session;
    request.set_model("m");
    status = stub().OpenSession(&context, request, &session);
    if (status.ok()) ids.push_back(session.session_id());
  }
  ExpectRefused(status);
  EXPECT_GE(ids.size(), kHostLimit / 4096);
  grpc::ClientContext context;
  v1::ForkSessionRequest fork;
  v1::Session session;
  fork.set_session_id(ids[0]);
  ExpectRefused(stub().ForkSession(&context, fork, &session));
  Generated turn = Generate(Request(ids[0]));
  ExpectRefused(turn.status);
  EXPECT_EQ(Get(ids[0]).position(), 0u);
  Close(ids.back());
  Close(ids[1]);
  EXPECT_TRUE(Generate(Request(ids[0])).status.ok());
  for (size_t i = 2; i + 1 < ids.size(); ++i) Close(ids[i]);
  Close(ids[0]);
  ExpectHeld(0);
}

TEST_F(ServerHostMemoryTest, AnAppendBeyondTheLimitIsRolledBack) {
  const std::string id = Open();
  const std::string full = Open();
  Fill(full, 15);
  v1::AppendRequest request;
  request.set_session_id(id);
  request.mutable_input()->set_text("a beginning");
  grpc::ClientContext context;
  v1::AppendResponse response;
  const auto writer = stub().Append(&context, &response);
  writer->Write(request);
  request.clear_session_id();
  request.mutable_input()->set_text(std::string(60000, 'a'));
  writer->Write(request);
  writer->WritesDone();
  ExpectRefused(writer->Finish());
  EXPECT_EQ(Get(id).position(), 0u);
  Close(full);
  Close(id);
  ExpectHeld(0);
}

TEST_F(ServerHostMemoryTest, ForksShareTheirConversation) {
  const std::string id = Open();
  Fill(id, 5);
  ExpectHeld(Get(id).bytes().host());
  std::vector<std::string> forks;
  for (int i = 0; i < 10; ++i) {
    grpc::ClientContext context;
    v1::ForkSessionRequest request;
    v1::Session session;
    request.set_session_id(id);
    const grpc::Status status = stub().ForkSession(&context, request, &session);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_GE(session.bytes().host(), 300000u) << "a session tells all that it holds";
    forks.push_back(session.session_id());
    ASSERT_TRUE(Generate(ChatRequest(session.session_id(), "b")).status.ok());
  }
  EXPECT_LE(Held(), 400000u);
  Close(id);
  EXPECT_GE(Held(), 300000u);
  for (const std::string& fork : forks) Close(fork);
  ExpectHeld(0);
}

// Scored texts count while they are scored.
TEST_F(ServerHostMemoryTest, AScoreBeyondTheLimitIsRefused) {
  const std::string full = Open();
  Fill(full, 15);
  const auto score = [&] {
    grpc::ClientContext context;
    v1::ScoreRequest request;
    request.set_model("m");
    request.mutable_input()->set_text(std::string(40000, 's'));
    const auto reader = stub().Score(&context, request);
    v1::ScoreResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  };
  ExpectRefused(score());
  Close(full);
  ExpectHeld(0);
  const grpc::Status status = score();
  EXPECT_TRUE(status.ok()) << status.error_message();
  ExpectHeld(0);
}

}  // namespace
}  // namespace longstream
