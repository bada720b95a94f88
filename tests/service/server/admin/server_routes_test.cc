// Routes through the gRPC servers of clients and of operators, with costs that the test gives.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/server/admin/server_aliases_fixture.h"

namespace longstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ServerRoutesTest : public ServerAliasesTest {
 protected:
  // "a" reads short prompts faster, "b" long ones; they cross at 1000 tokens.
  ServerRoutesTest() {
    ArmCosts a;
    a.measured_depth = 4096;
    a.prefill = {0.001, 2e-6};
    a.decode = {0.01, 0};
    a.context_limit = 65536;
    a.kv_bytes_per_token = 1000;
    a.page_tokens = 1;
    ArmCosts b = a;
    b.prefill = {0.002, 0};
    b.kv_bytes_per_token = 0;
    b.page_tokens = 0;
    b.fixed_bytes = 500'000;
    book_->Put("a", a);
    book_->Put("b", b);
  }

  grpc::Status SetRoute(const std::string& name, const std::vector<std::string>& arms,
                        const admin::v1::AliasRoute& route = {}, admin::v1::Alias* set = nullptr) {
    grpc::ClientContext context;
    admin::v1::SetAliasRequest request;
    admin::v1::SetAliasResponse response;
    request.mutable_alias()->set_name(name);
    for (const std::string& arm : arms) request.mutable_alias()->add_arms()->set_model(arm);
    *request.mutable_alias()->mutable_route() = route;
    const grpc::Status status = admin_->SetAlias(&context, request, &response);
    if (set != nullptr) *set = response.alias();
    return status;
  }
  grpc::Status TryOpenFor(const v1::Expectation& expect, v1::Session* session,
                          const std::string& id = "") {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_model("auto");
    request.set_session_id(id);
    *request.mutable_expect() = expect;
    return stub_->OpenSession(&context, request, session);
  }
  v1::Session OpenFor(uint64_t prompt_tokens, double max_seconds = 0, const std::string& id = "") {
    v1::Expectation expect;
    expect.set_prompt_tokens(prompt_tokens);
    expect.set_max_tokens(10);
    if (max_seconds > 0) {
      expect.mutable_max_time_to_first_token()->set_seconds(static_cast<int64_t>(max_seconds));
    }
    v1::Session session;
    const grpc::Status status = TryOpenFor(expect, &session, id);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session;
  }
};

TEST_F(ServerRoutesTest, TheLengthOfThePromptChoosesTheModel) {
  ASSERT_TRUE(SetRoute("auto", {"a", "b"}).ok());
  const v1::Session s = OpenFor(500);
  EXPECT_EQ(s.model(), "a");
  EXPECT_EQ(s.alias(), "auto");
  EXPECT_EQ(s.routing().reason(), v1::ROUTE_REASON_LEAST_TIME);
  EXPECT_THAT(s.routing().text(), HasSubstr("a takes the least time for 500 prompt tokens"));
  ASSERT_EQ(s.routing().arms_size(), 2);
  EXPECT_EQ(s.routing().arms(0).model(), "a");
  EXPECT_TRUE(s.routing().arms(0).measured());
  EXPECT_EQ(s.routing().arms(0).prompt_tokens(), 500u);
  EXPECT_EQ(s.routing().arms(0).session_bytes(), 510'000u);
  EXPECT_EQ(s.routing().arms(0).time_to_first_token().nanos(), 750'000'000);
  EXPECT_EQ(s.routing().arms(1).time_to_first_token().seconds(), 1);
  EXPECT_EQ(OpenFor(2000).model(), "b");
  // The first turn runs, whatever its length, and the session stays where it is.
  ASSERT_TRUE(Generate(s.session_id(), 3).ok());
  EXPECT_EQ(Get(s.session_id()).model(), "a");
  EXPECT_EQ(Get(s.session_id()).routing().text(), s.routing().text());
  EXPECT_EQ(Metric("routed_total", {{"arm", "a"}, {"reason", "least_time"}}), 1);
  EXPECT_EQ(Metric("routed_total", {{"arm", "b"}, {"reason", "least_time"}}), 1);
}

TEST_F(ServerRoutesTest, BudgetsOfTheRequestAndOfTheAlias) {
  admin::v1::AliasRoute route;
  route.mutable_max_time_to_first_token()->set_seconds(10);
  route.set_prompt_tokens(100);
  ASSERT_TRUE(SetRoute("auto", {"a", "b"}, route).ok());
  // a: n / 1000 + n^2 / 10^6; b: n / 500.
  EXPECT_EQ(OpenFor(2000).model(), "a") << "6 s: the first arm is good enough";
  EXPECT_EQ(OpenFor(4000).model(), "b") << "20 s, and 8 s";
  EXPECT_EQ(OpenFor(4000).routing().reason(), v1::ROUTE_REASON_FIRST_WITHIN);
  EXPECT_EQ(OpenFor(4000, 30).model(), "a") << "a request with a budget of its own";
  EXPECT_EQ(OpenFor(20'000, 1).routing().reason(), v1::ROUTE_REASON_LEAST_EXCESS);
  EXPECT_EQ(OpenFor(20'000, 1).routing().arms(0).exceeds(), "max_time_to_first_token");
  const v1::Session unknown = Open("auto");
  EXPECT_EQ(unknown.model(), "a");
  EXPECT_EQ(unknown.routing().arms(0).prompt_tokens(), 100u) << "what the alias expects";
  v1::Expectation memory;
  memory.set_max_session_bytes(600'000);
  memory.set_prompt_tokens(4000);
  v1::Session session;
  ASSERT_TRUE(TryOpenFor(memory, &session).ok());
  EXPECT_EQ(session.model(), "b") << session.routing().text();
  v1::Expectation text;
  text.set_prompt_bytes(4000);
  ASSERT_TRUE(TryOpenFor(text, &session).ok());
  EXPECT_EQ(session.routing().arms(0).prompt_tokens(), 4000u) << "each byte is a token";
}

TEST_F(ServerRoutesTest, ARestartKeepsTheRouteAndTheSessions) {
  admin::v1::AliasRoute route;
  route.mutable_max_time_per_token()->set_nanos(50'000'000);
  route.set_max_session_bytes(1 << 30);
  admin::v1::Alias set;
  ASSERT_TRUE(SetRoute("auto", {"b", "a"}, route, &set).ok());
  EXPECT_EQ(set.route().max_time_per_token().nanos(), 50'000'000);
  EXPECT_EQ(set.route().prompt_tokens(), 1024u) << "the default";
  EXPECT_EQ(set.arms(1).costs().measured_depth(), 4096u);
  EXPECT_EQ(set.arms(1).costs().prompt_token().nanos(), 1'000'000);
  EXPECT_EQ(set.arms(1).costs().prompt_token_per_1000().nanos(), 2'000'000);
  const v1::Session session = OpenFor(500, 0, IdOf(7));
  EXPECT_EQ(session.model(), "b");
  EXPECT_EQ(session.routing().reason(), v1::ROUTE_REASON_PREFERRED);
  Stop();
  Start();
  EXPECT_THAT(Aliases(), ElementsAre("auto b=0 a=0 changed", "chat a=90 b=10"));
  EXPECT_EQ(Get(IdOf(7)).model(), "b");
  EXPECT_EQ(Get(IdOf(7)).alias(), "auto");
  EXPECT_FALSE(Get(IdOf(7)).has_routing());
  EXPECT_EQ(OpenFor(500, 0, IdOf(7)).model(), "b") << "an equal repeat";
  v1::Session other;
  v1::Expectation expect;
  expect.set_prompt_tokens(501);
  expect.set_max_tokens(10);
  EXPECT_EQ(TryOpenFor(expect, &other, IdOf(7)).error_code(), grpc::StatusCode::ALREADY_EXISTS)
      << "another request has made this session";
  EXPECT_EQ(OpenFor(500).model(), "b") << "the order and the budgets are as before";
  ASSERT_TRUE(Set("auto", {{"a", 1}}).ok()) << "an alias may become one with weights";
  EXPECT_EQ(Open("auto").model(), "a");
}

TEST_F(ServerRoutesTest, AForkOntoARouteIsAsLongAsItsHistory) {
  ASSERT_TRUE(SetRoute("auto", {"a", "b"}).ok());
  const v1::Session source = Open("a");
  ASSERT_TRUE(Generate(source.session_id(), 3).ok());
  const v1::Session fork = Fork(source.session_id(), "auto");
  EXPECT_EQ(fork.alias(), "auto");
  EXPECT_EQ(fork.routing().arms(0).prompt_tokens(), Get(source.session_id()).position());
  EXPECT_FALSE(Fork(fork.session_id()).has_routing()) << "nothing was chosen";
}

TEST_F(ServerRoutesTest, WrongValuesNameTheFieldTheValueAndTheLimit) {
  ASSERT_TRUE(SetRoute("auto", {"a", "b"}).ok());
  v1::Session session;
  v1::Expectation expect;
  expect.mutable_max_time_per_token();
  grpc::Status status = TryOpenFor(expect, &session);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "expect.max_time_per_token: expected more than 0 and at most 24h, found 0");
  expect.Clear();
  expect.mutable_max_time_to_first_token()->set_nanos(-1);
  EXPECT_THAT(TryOpenFor(expect, &session).error_message(),
              AllOf(HasSubstr("expect.max_time_to_first_token: "), HasSubstr("found -1s")));
  expect.Clear();
  expect.set_max_tokens((uint64_t{1} << 31) + 1);
  EXPECT_EQ(TryOpenFor(expect, &session).error_message(),
            "expect.max_tokens: expected at most 2147483648, found 2147483649");

  admin::v1::AliasRoute route;
  route.mutable_max_time_to_first_token()->set_seconds(100'000);
  status = SetRoute("auto", {"a"}, route);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "max_time_to_first_token: expected more than 0 and at most 24h, found 27h46m40s");
  EXPECT_EQ(SetRoute("auto", {}).error_message(), "arms: expected 1 to 8 models, found 0");
  EXPECT_EQ(SetRoute("auto", {"none"}).error_message(), "arms: no model 'none'");
}

}  // namespace
}  // namespace longstream
