// Aliases through the gRPC servers of clients and of operators, with a store and restarts.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/serving/aliases/arm_choice.h"
#include "tests/service/server/admin/server_aliases_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

// The ids are fixed, so the split is always the same. arm_choice_test shows that the interval is
// that of the binomial distribution.
TEST_F(ServerAliasesTest, TenThousandSessionsAreSplitNinetyToTen) {
  int of_a = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    v1::Session session;
    const grpc::Status status = TryOpen("chat", IdOf(i), &session, v1::DURABILITY_MEMORY);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(session.alias(), "chat");
    of_a += session.model() == "a" ? 1 : 0;
  }
  // 99.9 % of the binomial distribution.
  EXPECT_GE(of_a, 8900);
  EXPECT_LE(of_a, 9097);
  EXPECT_EQ(Metric("sessions_total", {{"alias", "chat"}, {"arm", "a"}, {"code", "OK"}}), of_a);
  EXPECT_EQ(Metric("sessions_total", {{"alias", "chat"}, {"arm", "b"}, {"code", "OK"}}),
            10'000 - of_a);
}

TEST_F(ServerAliasesTest, ATwinIsNamedByItsModel) {
  admin::v1::SetAliasResponse set;
  ASSERT_TRUE(Set("chat", {{"a", 0}, {"b", 1}}, &set).ok());
  v1::GenerateRequest request;
  request.set_session_id(Open("a").session_id());
  request.mutable_input()->set_text("hello");
  request.set_max_tokens(3);
  request.set_twin_model("chat");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  std::string started;
  std::string finished;
  while (reader->Read(&response)) {
    if (response.has_started()) started = response.started().twin().model();
    if (response.has_finish()) finished = response.finish().twin().model();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(started, "b");
  EXPECT_EQ(finished, "b");
}

TEST_F(ServerAliasesTest, ASessionKeepsItsModel) {
  std::map<std::string, std::string> models;
  for (uint64_t i = 0; i < 40; ++i) models[IdOf(i)] = Open("chat", IdOf(i)).model();
  ASSERT_TRUE(Generate(IdOf(0), 3).ok());
  admin::v1::SetAliasResponse set;
  ASSERT_TRUE(Set("chat", {{"a", 0}, {"b", 1}}, &set).ok());
  EXPECT_TRUE(set.alias().changed_at_run_time());
  EXPECT_EQ(set.alias().arms(1).state(), admin::v1::MODEL_STATE_READY);
  const auto check = [&](const char* when) {
    SCOPED_TRACE(when);
    for (const auto& [id, model] : models) {
      EXPECT_EQ(Get(id).model(), model);
      EXPECT_EQ(Get(id).alias(), "chat");
      EXPECT_EQ(Open("chat", id).model(), model) << "a repeat of the call";
    }
    EXPECT_EQ(Open("chat").model(), "b") << "a new session";
  };
  check("after the weights changed");
  Stop();
  Start();
  EXPECT_THAT(Aliases(), ElementsAre("chat a=0 b=1 changed"));
  check("after a restart");
  for (const auto& [id, model] : models) {
    EXPECT_TRUE(Generate(id, 2).ok());
    EXPECT_EQ(Get(id).model(), model);
  }
  check("when they have run");
  v1::Session other;
  EXPECT_EQ(TryOpen("a", IdOf(0), &other).error_code(), grpc::StatusCode::ALREADY_EXISTS)
      << "another request has made this session";
}

TEST_F(ServerAliasesTest, ForksInheritTheAliasOrNameAnother) {
  const v1::Session source = Open("chat");
  ASSERT_TRUE(Generate(source.session_id(), 3).ok());
  const v1::Session fork = Fork(source.session_id());
  EXPECT_EQ(fork.alias(), "chat");
  EXPECT_EQ(fork.model(), source.model());
  const std::string other = source.model() == "a" ? "b" : "a";
  EXPECT_EQ(Fork(source.session_id(), other).alias(), "") << "the model was named";
  ASSERT_TRUE(Set("other", {{other, 1}}).ok());
  const v1::Session moved = Fork(source.session_id(), "other");
  EXPECT_EQ(moved.model(), other);
  EXPECT_EQ(moved.alias(), "other");
  ASSERT_TRUE(Generate(moved.session_id(), 3).ok());
  Stop();
  Start();
  EXPECT_EQ(Get(fork.session_id()).alias(), "chat");
  EXPECT_EQ(Get(moved.session_id()).alias(), "other");
  EXPECT_EQ(Get(moved.session_id()).model(), other);
}

TEST_F(ServerAliasesTest, ImportsMayNameAnAliasAndForgetThatOfTheFile) {
  const v1::Session source = Open("chat");
  ASSERT_TRUE(Generate(source.session_id(), 3).ok());
  grpc::ClientContext exporting;
  v1::ExportSessionRequest wanted;
  wanted.set_session_id(source.session_id());
  const auto reader = stub_->ExportSession(&exporting, wanted);
  std::string file;
  for (v1::ExportSessionResponse piece; reader->Read(&piece);) file += piece.data();
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_TRUE(Set("only-b", {{"b", 1}}).ok());
  const auto import = [&](const std::string& id, const std::string& model) {
    grpc::ClientContext context;
    v1::ImportSessionRequest request;
    v1::Session session;
    request.set_session_id(id);
    request.set_model(model);
    request.set_data(file);
    const auto writer = stub_->ImportSession(&context, &session);
    writer->Write(request);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session;
  };
  EXPECT_EQ(import(IdOf(1), "only-b").model(), "b");
  EXPECT_EQ(Get(IdOf(1)).alias(), "only-b");
  EXPECT_EQ(import(IdOf(2), "").model(), source.model());
  EXPECT_EQ(Get(IdOf(2)).alias(), "");
}

TEST_F(ServerAliasesTest, ARepeatFindsItsSessionWhenTheAliasIsDeleted) {
  const std::string id = IdOf(1), of_model = IdOf(2);
  const std::string model = Open("chat", id).model();
  Open("a", of_model);
  ASSERT_TRUE(Delete("chat").ok());
  EXPECT_EQ(Open("chat", id).model(), model);
  v1::Session session;
  // Not what it opened: the id does not tell whether another call used it.
  for (const std::string& other : {of_model, IdOf(3)}) {
    EXPECT_EQ(TryOpen("chat", other, &session).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(TryOpen("none", id, &session).error_code(), grpc::StatusCode::NOT_FOUND);
  Stop();
  Start();
  EXPECT_EQ(Open("chat", id).model(), model) << "from the store";
}

TEST_F(ServerAliasesTest, ARepeatedForkFindsItsSessionWhenTheAliasIsDeleted) {
  const std::string source = IdOf(1), fork = IdOf(2), of_model = IdOf(3);
  Open("a", source);
  const std::string model = Fork(source, "chat", fork).model();
  Fork(source, "b", of_model);
  ASSERT_TRUE(Delete("chat").ok());
  EXPECT_EQ(Fork(source, "chat", fork).model(), model);
  v1::Session session;
  for (const std::string& other : {of_model, IdOf(4), std::string()}) {
    EXPECT_EQ(TryFork(source, "chat", other, &session).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(TryFork(source, "none", fork, &session).error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(Close(source).ok());
  EXPECT_EQ(Fork(source, "chat", fork).model(), model) << "its source is closed";
  Stop();
  Start();
  EXPECT_EQ(Fork(source, "chat", fork).alias(), "chat") << "from the store";
}

TEST_F(ServerAliasesTest, ListsTheSessionsOfAnAlias) {
  ASSERT_TRUE(Set("new", {{"a", 1}}).ok());
  // Pages of the store have 3 rows (most_listed_rows): some have no session of "new".
  std::vector<std::string> of_chat, of_new;
  for (uint64_t i = 0; i < 20; ++i) {
    const bool is_new = i == 3 || i > 15;
    (is_new ? of_new : of_chat).push_back(Open(is_new ? "new" : "chat", IdOf(i)).session_id());
  }
  v1::Session in_memory;
  ASSERT_TRUE(TryOpen("a", IdOf(100), &in_memory, v1::DURABILITY_MEMORY).ok());
  const auto check = [&](const char* when) {
    SCOPED_TRACE(when);
    EXPECT_THAT(List("", "new"), ElementsAreArray(of_new));
    EXPECT_THAT(List("", "chat"), ElementsAreArray(of_chat));
    EXPECT_THAT(List("b", "new"), IsEmpty());
    EXPECT_THAT(List("a", "new"), ElementsAreArray(of_new));
    EXPECT_THAT(List("", "none"), IsEmpty());
  };
  check("in memory");
  EXPECT_EQ(List("", "").size(), 21u);
  Stop();
  Start();
  check("in the store");
  ASSERT_TRUE(Generate(of_new[1], 2).ok());
  ASSERT_TRUE(Generate(of_chat.back(), 2).ok());
  ASSERT_TRUE(TryOpen("new", IdOf(101), &in_memory, v1::DURABILITY_MEMORY).ok());
  of_new.push_back(IdOf(101));
  ASSERT_TRUE(Delete("new").ok());
  check("some in memory, and an alias was deleted");
  grpc::ClientContext context;
  v1::ListSessionsRequest request;
  v1::ListSessionsResponse response;
  request.set_alias("no name");
  const grpc::Status refused = stub_->ListSessions(&context, request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("alias: expected "));
}

TEST_F(ServerAliasesTest, TokenizeNamesTheDrawnModel) {
  ASSERT_TRUE(Set("only-b", {{"b", 1}}).ok());
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_model("only-b");
  request.mutable_input()->set_text("hello");
  v1::TokenizeResponse response;
  ASSERT_TRUE(stub_->Tokenize(&context, request, &response).ok());
  EXPECT_EQ(response.model(), "b");
  EXPECT_EQ(response.count(), 5u);
  v1::DetokenizeRequest ids;
  ids.set_model("only-b");
  *ids.mutable_token_ids() = response.token_ids();
  grpc::ClientContext second;
  v1::DetokenizeResponse text;
  ASSERT_TRUE(stub_->Detokenize(&second, ids, &text).ok());
  EXPECT_EQ(text.model(), "b");
  EXPECT_EQ(text.text(), "hello");
}

TEST_F(ServerAliasesTest, ScoreAndCompareNameTheDrawnModel) {
  std::set<std::string> scored;
  for (int i = 0; i < 500 && scored.size() < 2; ++i) {
    grpc::ClientContext context;
    v1::ScoreRequest request;
    request.set_model("chat");
    request.mutable_input()->set_text("hello");
    const auto reader = stub_->Score(&context, request);
    v1::ScoreResponse response, last;
    while (reader->Read(&response)) last = response;
    ASSERT_TRUE(reader->Finish().ok());
    scored.insert(last.summary().model());
  }
  EXPECT_THAT(scored, ElementsAre("a", "b")) << "0.9^500 is 10^-23";
  ASSERT_TRUE(Set("only-b", {{"b", 1}}).ok());
  grpc::ClientContext context;
  v1::CompareRequest request;
  request.add_arms()->set_model("a");
  request.add_arms()->set_model("only-b");
  request.mutable_input()->set_text("hello");
  request.mutable_forced()->set_answer_of(1);
  request.set_max_tokens(3);
  request.mutable_stop()->set_ignore_eos(true);
  const auto reader = stub_->Compare(&context, request);
  v1::CompareResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.started().arms(1).model(), "b");
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(WaitForMetric(*minimal_.registry(), 2, "longstream_alias_requests_total",
                          {{"alias", "only-b"}, {"arm", "b"}, {"code", "OK"}}),
            2)
      << "the answer, and the arm that reads it";
}

TEST_F(ServerAliasesTest, ListsOfModelsHaveThemAndModelsAreNotAliases) {
  grpc::ClientContext context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(stub_->ListModels(&context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 2);
  ASSERT_EQ(list.aliases_size(), 1);
  EXPECT_EQ(list.aliases(0).name(), "chat");
  ASSERT_EQ(list.aliases(0).arms_size(), 2);
  EXPECT_EQ(list.aliases(0).arms(0).model(), "a");
  EXPECT_EQ(list.aliases(0).arms(0).weight(), 90u);
  grpc::ClientContext of_model, of_sessions;
  v1::GetModelRequest get;
  v1::Model model;
  get.set_name("chat");
  const grpc::Status got = stub_->GetModel(&of_model, get, &model);
  EXPECT_EQ(got.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(got.error_message(), "name: chat is an alias; expected a model, such as a or b");
  v1::ListSessionsRequest sessions;
  v1::ListSessionsResponse listed;
  sessions.set_model("chat");
  const grpc::Status refused = stub_->ListSessions(&of_sessions, sessions, &listed);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "model: chat is an alias; expected a model, such as a or b");
}

TEST_F(ServerAliasesTest, TurnsCountForTheirArm) {
  ASSERT_TRUE(Set("chat", {{"a", 1}, {"b", 0}}).ok());
  const std::string session = Open("chat").session_id();
  ASSERT_TRUE(Generate(session, 5).ok());
  ASSERT_TRUE(Set("chat", {{"a", 0}, {"b", 1}}).ok());
  ASSERT_TRUE(Generate(session, 4).ok()) << "its arm has no weight now";
  const std::map<std::string, std::string> arm = {{"alias", "chat"}, {"arm", "a"}};
  const std::map<std::string, std::string> ended = {
      {"alias", "chat"}, {"arm", "a"}, {"code", "OK"}, {"finish_reason", "max_tokens"}};
  const prometheus::Registry& registry = *minimal_.registry();
  EXPECT_EQ(WaitForMetric(registry, 2, "longstream_alias_requests_total", ended), 2);
  EXPECT_EQ(Metric("turns_started_total", arm), 2);
  EXPECT_EQ(Metric("generated_tokens_total", arm), 9);
  EXPECT_EQ(Metric("prompt_tokens_total", arm), 10);
  EXPECT_EQ(Metric("weight", arm), 0);
  EXPECT_EQ(Metric("turns_started_total", {{"arm", "b"}}), 0);
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name != "longstream_alias_inter_token_latency_seconds") continue;
    uint64_t samples = 0;
    for (const prometheus::ClientMetric& metric : family.metric) {
      samples += metric.histogram.sample_count;
    }
    EXPECT_EQ(samples, 7u) << "all tokens but the first of each turn";
  }
  grpc::ClientContext context;
  v1::GenerateRequest wrong;
  wrong.set_session_id(session);
  wrong.mutable_sampling()->set_top_p(7);
  v1::GenerateResponse response;
  const auto reader = stub_->Generate(&context, wrong);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(WaitForMetric(registry, 1, "longstream_alias_requests_total",
                          {{"arm", "a"}, {"code", "INVALID_ARGUMENT"}}),
            1);
  ASSERT_TRUE(Set("chat", {{"b", 1}}).ok());
  EXPECT_FALSE(HasMetricsOf("a"));
  EXPECT_EQ(Generate(session, 1).error_code(), grpc::StatusCode::OK) << "the session goes on";
  EXPECT_FALSE(HasMetricsOf("a"));
  ASSERT_TRUE(Delete("chat").ok());
  EXPECT_FALSE(HasMetricsOf("b"));
}

TEST_F(ServerAliasesTest, ChangesOutliveTheServer) {
  EXPECT_THAT(Aliases(), ElementsAre("chat a=90 b=10"));
  ASSERT_TRUE(Set("best", {{"b", 5}}).ok());
  ASSERT_TRUE(Set("chat", {{"a", 1}, {"b", 1}}).ok());
  ASSERT_TRUE(Set("gone", {{"b", 5}}).ok());
  ASSERT_TRUE(Delete("gone").ok());
  EXPECT_THAT(Aliases(), ElementsAre("best b=5 changed", "chat a=1 b=1 changed"));
  Stop();
  Start();
  EXPECT_THAT(Aliases(), ElementsAre("best b=5 changed", "chat a=1 b=1 changed"));
  EXPECT_TRUE(IsServing("best"));
  ASSERT_TRUE(Delete("chat").ok());
  EXPECT_FALSE(IsServing("chat"));
  v1::Session session;
  EXPECT_EQ(TryOpen("chat", "", &session).error_code(), grpc::StatusCode::NOT_FOUND);
  Stop();
  Start();
  EXPECT_THAT(Aliases(), ElementsAre("best b=5 changed"));
  // As the configuration has it, in another order: the row goes.
  ASSERT_TRUE(Set("chat", {{"b", 10}, {"a", 90}}).ok());
  ASSERT_TRUE(Delete("best").ok());
  EXPECT_THAT(*store_->Aliases(), IsEmpty());
  Stop();
  Start();
  EXPECT_THAT(Aliases(), ElementsAre("chat a=90 b=10"));
}

TEST_F(ServerAliasesTest, AnArmThatIsNotServedIsAnErrorAndNeverAnotherArm) {
  ASSERT_TRUE(Load("late").ok());
  ASSERT_TRUE(Set("chat", {{"a", 1}, {"late", 1}}).ok());
  EXPECT_TRUE(WaitUntil([&] { return IsServing("chat"); }));
  const grpc::Status unloaded = Unload("late");
  EXPECT_EQ(unloaded.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(unloaded.error_message(),
            "name: model late is an arm of alias chat; set or delete the alias first");
  Stop();
  Start();  // without the model that was loaded at run time
  EXPECT_THAT(Aliases(), ElementsAre("chat a=1 late=1? changed"));
  EXPECT_FALSE(IsServing("chat"));
  const AliasConfig alias{"chat", {{"a", 1}, {"late", 1}}};
  int refused = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    v1::Session session;
    const grpc::Status status = TryOpen("chat", IdOf(i), &session);
    if (ChooseArm(alias, {0, i}) == 0) {
      EXPECT_EQ(session.model(), "a");
      continue;
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(),
                AllOf(HasSubstr("alias chat has chosen its arm late"), HasSubstr("not serve")));
    ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(Metric("sessions_total", {{"arm", "late"}, {"code", "FAILED_PRECONDITION"}}), refused);
  ASSERT_TRUE(Load("late").ok());
  EXPECT_TRUE(WaitUntil([&] { return IsServing("chat"); }));
}

TEST_F(ServerAliasesTest, WrongChangesNameTheFieldTheValueAndTheLimit) {
  const auto expect = [](const grpc::Status& status, grpc::StatusCode code,
                         const std::string& message) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_EQ(status.error_message(), message);
  };
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  expect(Set("x", {}), kInvalid, "arms: expected 1 to 8 models, found 0");
  expect(Set("x", {{"a", 0}}), kInvalid, "arms: expected a weight of 1 or more, found only 0");
  expect(Set("x", {{"a", 1'000'001}}), kInvalid,
         "arms: the weight of 'a' is expected to be 0 to 1000000, found 1000001");
  expect(Set("x", {{"a", 1}, {"a", 1}}), kInvalid, "arms: two have the model 'a'");
  expect(Set("x", {{"chat", 1}}), kInvalid, "arms: 'chat' is an alias; expected a model");
  expect(Set("x", {{"none", 1}}), grpc::StatusCode::NOT_FOUND, "arms: no model 'none'");
  expect(Set("a", {{"b", 1}}), grpc::StatusCode::ALREADY_EXISTS, "name: a is the name of a model");
  EXPECT_THAT(Set("grpc.x", {{"b", 1}}).error_message(), HasSubstr("health service"));
  EXPECT_THAT(Set("../x", {{"b", 1}}).error_message(), HasSubstr("name: expected 1 to 128"));
  EXPECT_THAT(Set(std::string(100'000, 'x'), {{"b", 1}}).error_message(), HasSubstr("xx...'"));
  EXPECT_THAT(Set("x", {{std::string(100'000, 'y'), 1}}).error_message(), HasSubstr("yy...'"));
  expect(Delete("none"), grpc::StatusCode::NOT_FOUND, "name: no alias 'none'");
  expect(Load("chat"), grpc::StatusCode::ALREADY_EXISTS, "name: chat is the name of an alias");
  EXPECT_THAT(Aliases(), ElementsAre("chat a=90 b=10"));
  for (size_t i = 1; i < kMaxAliases; ++i) {
    ASSERT_TRUE(Set(absl::StrCat("x", i), {{"b", 1}}).ok());
  }
  expect(Set("one-more", {{"b", 1}}), grpc::StatusCode::RESOURCE_EXHAUSTED,
         "name: the server has 256 aliases, the limit");
  EXPECT_TRUE(Set("chat", {{"b", 1}}).ok()) << "one that is there";
}

}  // namespace
}  // namespace longstream
