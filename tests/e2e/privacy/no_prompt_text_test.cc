// Text of prompts, messages, tools and sessions is in no log, no metric, no file outside the store,
// and in no answer to another caller, however a call ends.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/sessions/store/sqlite/database.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/privacy/text_fields.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/server_process.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr char kSecret[] = "CANARY-7f3a91";
// Begins a JSON text that is not one.
const std::string kBrokenJson = std::string("{\"") + kSecret + "\": ";

// Refuses the role "refused", and fails at the role "broken".
constexpr char kTemplate[] =
    "{% for m in messages %}"
    "{% if m.role == 'refused' %}{{ raise_exception('no: ' ~ m.content) }}{% endif %}"
    "{% if m.role == 'broken' %}{{ m.content + 1 }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

class NoPromptTextTest : public testing::Test {
 protected:
  NoPromptTextTest() {
    minimal_.Write("chat_template.jinja", kTemplate);
    setenv("TMPDIR", temporary_.string().c_str(), 1);
    Start();
  }
  ~NoPromptTextTest() override { unsetenv("TMPDIR"); }

  void Start() {
    server_ = std::make_unique<ServerProcess>(
        kServerBinary,
        std::vector<std::string>{"--model", minimal_.Flag(",options.step_delay_us=500"), "--store",
                                 store_, "--log-level", "debug"});
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    stub_ = v1::Longstream::NewStub(channel_);
    client::Connection(server_->address()).WaitUntilServing("m", std::chrono::seconds(60));
  }

  // Runs a unary call. Returns its status, and remembers what the caller was told.
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::Longstream::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    return Told((stub_.get()->*method)(&context, request, response));
  }
  grpc::Status Told(const grpc::Status& status) {
    last_error_ = status.error_message();
    return status;
  }

  std::string Open(v1::Durability durability = v1::DURABILITY_TURN) {
    v1::OpenSessionRequest request;
    request.set_durability(durability);
    v1::Session session;
    EXPECT_TRUE(Call(&v1::Longstream::Stub::OpenSession, request, &session).ok()) << last_error_;
    return session.session_id();
  }
  v1::GenerateRequest Turn(const std::string& session, const std::string& text = kSecret) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.set_max_tokens(5);
    request.mutable_sampling()->set_seed(1);
    request.mutable_stop()->set_ignore_eos(true);
    if (!text.empty()) request.mutable_input()->set_text(text);
    return request;
  }
  v1::GenerateRequest Chat(const std::string& session, const std::string& role) {
    v1::GenerateRequest request = Turn(session, "");
    v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
    message->set_role(role);
    message->set_content(kSecret);
    return request;
  }
  // `cancel`: cancels the call after its first message.
  grpc::Status Generate(const v1::GenerateRequest& request, bool cancel = false,
                        std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      if (cancel) context.TryCancel();
    }
    return Told(reader->Finish());
  }
  grpc::Status Append(const v1::AppendRequest& request) {
    grpc::ClientContext context;
    v1::AppendResponse response;
    const auto writer = stub_->Append(&context, &response);
    writer->Write(request);
    writer->WritesDone();
    return Told(writer->Finish());
  }
  grpc::Status Score(const v1::ScoreRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub_->Score(&context, request);
    v1::ScoreResponse response;
    while (reader->Read(&response)) {
    }
    return Told(reader->Finish());
  }
  grpc::Status Export(const std::string& session, std::string* file) {
    grpc::ClientContext context;
    v1::ExportSessionRequest request;
    request.set_session_id(session);
    const auto reader = stub_->ExportSession(&context, request);
    v1::ExportSessionResponse response;
    while (reader->Read(&response)) *file += response.data();
    return Told(reader->Finish());
  }
  grpc::Status Import(const std::string& file, const std::string& session = "") {
    grpc::ClientContext context;
    v1::Session response;
    const auto writer = stub_->ImportSession(&context, &response);
    v1::ImportSessionRequest request;
    request.set_session_id(session);
    request.set_data(file);
    writer->Write(request);
    writer->WritesDone();
    return Told(writer->Finish());
  }
  // A message of any bytes, to any method.
  grpc::Status Raw(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return Told(status);
  }

  // The session's owner makes calls of every kind, with the canary wherever text can be.
  void CallsThatSucceed(const std::string& session);
  void TurnsThatFail(const std::string& session);
  void CallsThatFail(const std::string& session);
  // Somebody else calls with the ids of the session and of its turn. Returns what they are told.
  std::vector<std::string> CallsOfAnother(const std::string& session, const std::string& turn);

  void ExpectNoCanary() {
    EXPECT_EQ(server_->Log().find(kSecret), std::string::npos) << server_->Log();
    EXPECT_EQ(Scrape(server_->metrics_port()).find(kSecret), std::string::npos);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_.path())) {
      if (!entry.is_regular_file() || entry.path().string().starts_with(store_)) continue;
      if (entry.path().string().starts_with(minimal_.string())) continue;
      EXPECT_EQ(BytesOf(entry.path()).find(kSecret), std::string::npos) << entry.path();
    }
  }

  const TemporaryDirectory temporary_;  // the server's files must not be anywhere else
  const MinimalModelDirectory minimal_;
  const std::string store_ = temporary_.string() + "/store";
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
  std::string last_error_;
};

void NoPromptTextTest::CallsThatSucceed(const std::string& session) {
  ASSERT_TRUE(Generate(Chat(session, "user")).ok()) << last_error_;
  v1::GenerateRequest chat = Chat(session, "user");
  chat.mutable_input()->mutable_messages()->set_tools(std::string("[{\"name\": \"") + kSecret +
                                                      "\"}]");
  chat.mutable_input()->mutable_messages()->set_template_arguments(std::string("{\"x\": \"") +
                                                                   kSecret + "\"}");
  ASSERT_TRUE(Generate(chat).ok()) << last_error_;
  v1::GenerateRequest text = Turn(session);
  text.set_parse_special(true);
  text.mutable_stop()->add_strings(kSecret);
  text.set_log_probs(true);
  ASSERT_TRUE(Generate(text).ok()) << last_error_;
  v1::AppendRequest append;
  append.set_session_id(session);
  append.mutable_input()->set_text(kSecret);
  ASSERT_TRUE(Append(append).ok()) << last_error_;
  v1::ScoreRequest score;
  score.mutable_input()->set_text(kSecret);
  ASSERT_TRUE(Score(score).ok()) << last_error_;
  std::string file;
  // The turns that were cancelled may still be running.
  ASSERT_TRUE(WaitUntil([&] {
    file.clear();
    return Export(session, &file).ok();
  })) << last_error_;
  ASSERT_THAT(file, HasSubstr(kSecret)) << "the session has the text";
  ASSERT_TRUE(Import(file, "000000000000000000000000000000bb").ok()) << last_error_;
}

void NoPromptTextTest::TurnsThatFail(const std::string& session) {
  EXPECT_FALSE(Generate(Chat(session, "refused")).ok());
  EXPECT_THAT(last_error_, HasSubstr(kSecret)) << "the caller may see their own text";
  EXPECT_FALSE(Generate(Chat(session, "broken")).ok());
  const auto refuse = [&](const std::function<void(v1::Messages*)>& change) {
    v1::GenerateRequest request = Chat(session, "user");
    change(request.mutable_input()->mutable_messages());
    EXPECT_FALSE(Generate(request).ok());
  };
  refuse([](v1::Messages* all) { all->set_tools(kBrokenJson); });
  refuse([](v1::Messages* all) { all->set_template_arguments(kBrokenJson); });
  refuse([](v1::Messages* all) { all->mutable_messages(0)->set_json(kBrokenJson); });
  refuse([](v1::Messages* all) { all->mutable_messages(0)->mutable_content()->append("\xff"); });
  refuse([](v1::Messages* all) { all->mutable_messages(0)->mutable_role()->append("\xff"); });
  const auto fail = [&](const std::function<void(v1::GenerateRequest*)>& change) {
    v1::GenerateRequest request = Turn(session);
    change(&request);
    EXPECT_FALSE(Generate(request).ok());
  };
  fail([](v1::GenerateRequest* turn) { turn->set_turn_id(kSecret); });
  fail([](v1::GenerateRequest* turn) { turn->set_session_id(kSecret); });
  fail([](v1::GenerateRequest* turn) { turn->mutable_sampling()->set_temperature(-1); });
  fail([](v1::GenerateRequest* turn) {
    turn->mutable_input()->set_text(std::string(100'000, 'x') + kSecret);
  });
  fail([](v1::GenerateRequest* turn) {
    for (int i = 0; i < 100; ++i) turn->mutable_stop()->add_strings(kSecret + std::to_string(i));
  });
  fail([](v1::GenerateRequest* turn) { turn->mutable_stop()->add_strings(""); });
  fail([](v1::GenerateRequest* turn) { turn->set_expected_position(1); });
  v1::GenerateRequest slow = Turn(session);
  slow.set_max_tokens(1000);
  EXPECT_FALSE(Generate(slow, true).ok()) << "cancelled";
  EXPECT_FALSE(Generate(slow, false, std::chrono::milliseconds(100)).ok()) << "too late";

  v1::AppendRequest append;
  append.set_session_id(kSecret);
  append.mutable_input()->set_text(kSecret);
  EXPECT_FALSE(Append(append).ok());
  v1::TokenizeRequest tokenize;
  v1::TokenizeResponse tokens;
  tokenize.mutable_input()->set_text(kSecret);
  ASSERT_TRUE(Call(&v1::Longstream::Stub::Tokenize, tokenize, &tokens).ok());
  tokenize.set_model(kSecret);
  EXPECT_FALSE(Call(&v1::Longstream::Stub::Tokenize, tokenize, &tokens).ok());
  v1::ScoreRequest score;
  score.set_model(kSecret);
  score.mutable_input()->set_text(kSecret);
  EXPECT_FALSE(Score(score).ok());
}

void NoPromptTextTest::CallsThatFail(const std::string& session) {
  using Stub = v1::Longstream::Stub;
  v1::Session view;
  v1::OpenSessionRequest open;
  open.set_model(kSecret);
  EXPECT_FALSE(Call(&Stub::OpenSession, open, &view).ok());
  v1::ForkSessionRequest fork;
  fork.set_session_id(session);
  fork.set_model(kSecret);
  EXPECT_FALSE(Call(&Stub::ForkSession, fork, &view).ok());
  v1::RewindSessionRequest rewind;
  rewind.set_session_id(session);
  rewind.set_turn_id(kSecret);
  EXPECT_FALSE(Call(&Stub::RewindSession, rewind, &view).ok());
  v1::ListTurnsRequest turns;
  v1::ListTurnsResponse turns_page;
  turns.set_session_id(session);
  turns.set_page_token(kSecret);
  EXPECT_FALSE(Call(&Stub::ListTurns, turns, &turns_page).ok());
  v1::ReadHistoryRequest history;
  v1::ReadHistoryResponse history_page;
  history.set_session_id(session);
  history.set_page_token(kSecret);
  EXPECT_FALSE(Call(&Stub::ReadHistory, history, &history_page).ok());
  v1::ListSessionsRequest sessions;
  v1::ListSessionsResponse sessions_page;
  sessions.set_page_token(kSecret);
  EXPECT_FALSE(Call(&Stub::ListSessions, sessions, &sessions_page).ok());
  v1::CancelTurnRequest cancel;
  v1::Turn turn;
  cancel.set_session_id(session);
  cancel.set_turn_id(kSecret);
  EXPECT_FALSE(Call(&Stub::CancelTurn, cancel, &turn).ok());
  v1::GetModelRequest get_model;
  v1::Model model;
  get_model.set_name(kSecret);
  EXPECT_FALSE(Call(&Stub::GetModel, get_model, &model).ok());
  v1::CloseSessionRequest close;
  v1::CloseSessionResponse closed;
  close.set_session_id(kSecret);
  EXPECT_FALSE(Call(&Stub::CloseSession, close, &closed).ok());
  std::string file;
  EXPECT_FALSE(Export(kSecret, &file).ok());
  // The turns that were cancelled may still be running.
  ASSERT_TRUE(WaitUntil([&] {
    file.clear();
    return Export(session, &file).ok();
  })) << last_error_;
  EXPECT_FALSE(Import(file).ok()) << "the id is in use";
  EXPECT_FALSE(Import(kSecret + file).ok());
  for (size_t at = 20; at < file.size(); at += 1 + at / 4) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(Import(damaged, "000000000000000000000000000000cc").ok());
  }
  // Bytes that are no message, and a method that does not exist.
  for (const char* method : {"OpenSession", "GetSession", "ForkSession", "Generate", "Score"}) {
    EXPECT_FALSE(
        Raw(std::string("/longstream.v1.Longstream/") + method, std::string("\x0a\x7f") + kSecret)
            .ok());
  }
  EXPECT_FALSE(Raw("/longstream.v1.Longstream/Other", kSecret).ok());
}

std::vector<std::string> NoPromptTextTest::CallsOfAnother(const std::string& session,
                                                          const std::string& turn) {
  using Stub = v1::Longstream::Stub;
  std::vector<std::string> told;
  const auto note = [&](const grpc::Status& status) { told.push_back(status.error_message()); };
  // The same turn id, for another text.
  v1::GenerateRequest generate = Turn(session, "another text");
  generate.set_turn_id(turn);
  note(Generate(generate));
  generate.mutable_resume()->set_position(3);
  generate.mutable_resume()->add_token_ids(1);
  note(Generate(generate));
  v1::GenerateRequest chat = Chat(session, "user");
  chat.mutable_input()->mutable_messages()->mutable_messages(0)->set_content("hello");
  chat.mutable_input()->mutable_messages()->set_require_unchanged(true);
  note(Generate(chat));
  chat.mutable_input()->mutable_messages()->mutable_messages(0)->set_role("refused");
  note(Generate(chat));
  v1::Session view;
  v1::OpenSessionRequest open;
  open.set_session_id(session);
  open.mutable_idle_timeout()->set_seconds(77);
  note(Call(&Stub::OpenSession, open, &view));
  v1::RewindSessionRequest rewind;
  rewind.set_session_id(session);
  rewind.set_position(1'000'000);
  note(Call(&Stub::RewindSession, rewind, &view));
  v1::ForkSessionRequest fork;
  fork.set_session_id(session);
  fork.set_new_session_id(session);
  note(Call(&Stub::ForkSession, fork, &view));
  v1::GetSessionRequest get;
  get.set_session_id(session);
  note(Call(&Stub::GetSession, get, &view));
  told.push_back(view.DebugString());
  v1::ListTurnsRequest list;
  list.set_session_id(session);
  v1::ListTurnsResponse turns;
  note(Call(&Stub::ListTurns, list, &turns));
  told.push_back(turns.DebugString());
  v1::ListSessionsRequest list_sessions;
  v1::ListSessionsResponse sessions;
  note(Call(&Stub::ListSessions, list_sessions, &sessions));
  told.push_back(sessions.DebugString());
  return told;
}

TEST_F(NoPromptTextTest, ItIsOnlyWhereItBelongs) {
  const std::string turn = "00000000000000000000000000000001";
  const std::string session = Open();
  v1::GenerateRequest known = Chat(session, "user");
  known.set_turn_id(turn);
  ASSERT_TRUE(Generate(known).ok()) << last_error_;
  ASSERT_NO_FATAL_FAILURE(CallsThatSucceed(session));
  ASSERT_NO_FATAL_FAILURE(TurnsThatFail(session));
  ASSERT_NO_FATAL_FAILURE(CallsThatFail(session));
  const std::string in_memory = Open(v1::DURABILITY_MEMORY);
  EXPECT_TRUE(Generate(Turn(in_memory)).ok()) << last_error_;
  std::string file;
  EXPECT_FALSE(Export(in_memory, &file).ok());
  for (const std::string& told : CallsOfAnother(session, turn)) {
    EXPECT_EQ(told.find(kSecret), std::string::npos) << told;
  }
  EXPECT_THAT(server_->Log(), HasSubstr("\"event\":\"call_failed\"")) << "failed calls are logged";
  ExpectNoCanary();

  // The sessions are restored, one of them from rows that are damaged.
  EXPECT_EQ(server_->Stop(), 0);
  EXPECT_EQ(server_->Log().find(kSecret), std::string::npos);
  {
    const auto log = store::SqliteDatabase::Open(store_ + "/log.db", "");
    ASSERT_TRUE(log.ok()) << log.status();
    const absl::Status damaged = (*log)->Execute(
        "UPDATE turns SET request = CAST('CANARY-7f3a91' AS BLOB) WHERE number = 2");
    ASSERT_TRUE(damaged.ok()) << damaged;
  }
  Start();
  EXPECT_FALSE(Generate(Turn(session)).ok());
  EXPECT_THAT(Scrape(server_->metrics_port()), HasSubstr("longstream_sessions_lost_total 1\n"));
  EXPECT_FALSE(Export(session, &file).ok());
  for (const std::string& told : CallsOfAnother(session, turn)) {
    EXPECT_EQ(told.find(kSecret), std::string::npos) << told;
  }
  EXPECT_TRUE(Generate(Turn("000000000000000000000000000000bb")).ok()) << last_error_;
  ExpectNoCanary();
  EXPECT_EQ(server_->Stop(), 0);
}

}  // namespace
}  // namespace longstream
