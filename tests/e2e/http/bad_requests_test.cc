// Requests that are wrong: their status, and the field that the error names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/http/chat_server.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr char kBoth[] = "both";

// A member that makes a request wrong, as JSON.
struct Wrong {
  const char* route;  // kChatPath, kCompletionsPath or kBoth
  const char* member;
  const char* value;
  const char* param = nullptr;  // null: the member
};

const Wrong kWrong[] = {
    {kBoth, "model", "7"},
    {kBoth, "model", "[]"},
    {kBoth, "stream", "1"},
    {kBoth, "stream", "\"true\""},
    {kBoth, "stream_options", "7"},
    {kBoth, "stream_options", "{\"include_usage\": 1}", "stream_options.include_usage"},
    {kBoth, "stream_options", "{\"include\": true}", "stream_options.include"},
    {kBoth, "stream_options", "{\"include_usage\": true}"},  // without stream
    {kBoth, "temperature", "\"hot\""},
    {kBoth, "temperature", "-0.1"},
    {kBoth, "temperature", "1001"},
    {kBoth, "temperature", "[1]"},
    {kBoth, "top_p", "1.1"},
    {kBoth, "top_p", "-1"},
    {kBoth, "min_p", "2"},
    {kBoth, "top_k", "1.5"},
    {kBoth, "top_k", "-2"},
    {kBoth, "top_k", "2147483648"},
    {kBoth, "repetition_penalty", "-1"},
    {kBoth, "repetition_penalty", "1e7"},
    {kBoth, "presence_penalty", "2.1"},
    {kBoth, "presence_penalty", "true"},
    {kBoth, "frequency_penalty", "-2.1"},
    {kBoth, "seed", "1.5"},
    {kBoth, "seed", "1e300"},
    {kBoth, "seed", "18446744073709551615"},
    {kBoth, "seed", "\"1\""},
    {kBoth, "logit_bias", "[]"},
    {kBoth, "logit_bias", "{\"a\": 1}"},
    {kBoth, "logit_bias", "{\"-1\": 1}"},
    {kBoth, "logit_bias", "{\"1 \": 1}"},
    {kBoth, "logit_bias", "{\"1\": 101}", "logit_bias.1"},
    {kBoth, "logit_bias", "{\"1\": \"x\"}", "logit_bias.1"},
    {kBoth, "min_tokens", "-1"},
    {kBoth, "min_tokens", "4294967296"},
    {kBoth, "ignore_eos", "0"},
    {kBoth, "n", "0"},
    {kBoth, "n", "17"},
    {kBoth, "best_of", "2"},
    {kBoth, "stop_token_ids", "7"},
    {kBoth, "stop_token_ids", "[1.5]"},
    {kBoth, "stop_token_ids", "[-1]"},
    {kBoth, "stop_token_ids", "[4294967297]"},
    {kBoth, "stop_token_ids", "[18446744073709551615]"},
    {kBoth, "stop", "7"},
    {kBoth, "stop", "{}"},
    {kBoth, "stop", "[7]"},
    {kBoth, "stop", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"},
    {kBoth, "n", "\"1\""},
    {kBoth, "max_tokens", "0"},
    {kBoth, "max_tokens", "-1"},
    {kBoth, "max_tokens", "4294967296"},
    {kBoth, "max_tokens", "1.5"},
    {kBoth, "max_tokens", "\"16\""},
    {kBoth, "temprature", "1"},
    {kBoth, "", "1"},

    {kChatPath, "messages", "null"},
    {kChatPath, "messages", "[]"},
    {kChatPath, "messages", "\"abc\""},
    {kChatPath, "messages", "[7]", "messages[0]"},
    {kChatPath, "messages", "[{\"content\": \"a\"}]", "messages[0].role"},
    {kChatPath, "messages", "[{\"role\": 7}]", "messages[0].role"},
    {kChatPath, "messages", "[{\"role\": \"user\", \"content\": 7}]", "messages[0].content"},
    {kChatPath, "messages", "[{\"role\": \"user\", \"content\": {}}]", "messages[0].content"},
    {kChatPath, "messages", "[{\"role\": \"user\", \"content\": [7]}]", "messages[0].content[0]"},
    {kChatPath, "messages",
     "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {}}]}]",
     "messages[0].content[0].type"},
    {kChatPath, "messages", "[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]",
     "messages[0].content[0].text"},
    {kChatPath, "messages", "[{\"role\": \"assistant\", \"tool_calls\": 7}]",
     "messages[0].tool_calls"},
    {kChatPath, "messages", "[{\"role\": \"assistant\", \"tool_calls\": [{}]}]",
     "messages[0].tool_calls[0].function"},
    {kChatPath, "messages",
     "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": \"{\"}}]}]",
     "messages[0].tool_calls[0].function.arguments"},
    {kChatPath, "max_completion_tokens", "0"},
    {kChatPath, "max_completion_tokens", "7", "max_tokens"},  // the other one is 5
    {kChatPath, "logprobs", "3"},
    {kChatPath, "top_logprobs", "3"},  // without logprobs
    {kChatPath, "top_logprobs", "21"},
    {kChatPath, "add_generation_prompt", "\"yes\""},
    {kChatPath, "continue_final_message", "1"},
    {kChatPath, "chat_template_kwargs", "[]"},
    {kChatPath, "reasoning_effort", "7"},
    {kChatPath, "tools", "{}"},
    {kChatPath, "tools", "[{\"type\": \"web\"}]", "tools[0].type"},
    {kChatPath, "tools", "[{\"type\": \"function\"}]", "tools[0].function"},
    {kChatPath, "tools", "[{\"type\": \"function\", \"function\": {}}]", "tools[0].function.name"},
    {kChatPath, "tool_choice", "\"required\""},
    {kChatPath, "functions", "[]"},
    {kChatPath, "function_call", "\"auto\""},
    {kChatPath, "tool_choice", "\"always\""},
    {kChatPath, "tool_choice", "{\"type\": \"custom\"}", "tool_choice.type"},
    {kChatPath, "tool_choice", "{\"type\": \"function\"}", "tool_choice.name"},
    {kChatPath, "parallel_tool_calls", "1"},
    {kChatPath, "response_format", "\"json\""},
    {kChatPath, "response_format", "{\"type\": \"xml\"}", "response_format.type"},
    {kChatPath, "response_format", "{\"type\": \"json_schema\"}", "response_format.schema"},
    {kChatPath, "response_format", "{\"type\": \"json_schema\", \"json_schema\": {}}",
     "response_format.json_schema.schema"},
    {kChatPath, "structured_outputs", "{\"xml\": 1}", "structured_outputs.xml"},
    {kChatPath, "structured_outputs", "{\"json\": {}, \"regex\": \"a\"}",
     "structured_outputs.regex"},
    {kChatPath, "guided_choice", "[]"},
    {kChatPath, "guided_choice", "[1]"},
    {kChatPath, "guided_regex", "7"},
    {kChatPath, "modalities", "[\"audio\"]"},
    {kChatPath, "audio", "{}"},
    {kChatPath, "web_search_options", "{}"},
    {kChatPath, "prompt", "\"abc\""},

    {kCompletionsPath, "prompt", "null"},
    {kCompletionsPath, "prompt", "7"},
    {kCompletionsPath, "prompt", "{}"},
    {kCompletionsPath, "prompt", "[1, \"a\"]"},
    {kCompletionsPath, "prompt", "[1, -2]"},
    {kCompletionsPath, "prompt", "[1, 1.5]"},
    {kCompletionsPath, "prompt", "[2147483648]"},
    {kCompletionsPath, "prompt", "[\"a\", 7]", "prompt[1]"},
    {kCompletionsPath, "prompt", "[[1], [-1]]", "prompt[1]"},
    {kCompletionsPath, "logprobs", "true"},
    {kCompletionsPath, "logprobs", "21"},
    {kCompletionsPath, "logprobs", "-1"},
    {kCompletionsPath, "parse_special", "7"},
    {kCompletionsPath, "echo", "true"},
    {kCompletionsPath, "suffix", "\"end\""},
    {kCompletionsPath, "best_of", "2"},
    {kCompletionsPath, "messages", "[]"},
};

class BadRequestsTest : public testing::Test {
 protected:
  Json Base(const std::string& route) const {
    if (route == kChatPath) return ChatBody({{"user", "abc"}}, 5);
    return {{"model", "m"}, {"prompt", "abc"}, {"max_tokens", 5}, {"temperature", 0}};
  }
  HttpReply Send(const std::string& route, const std::string& body) const {
    return Ask(server_.http(), "POST", route, body);
  }
  void ExpectServes() const {
    for (const char* const route : {kChatPath, kCompletionsPath}) {
      const HttpReply reply = Post(server_.http(), route, Base(route));
      EXPECT_EQ(reply.status, 200) << reply.body;
    }
  }

  const ChatModelDirectory directory_;
  ChatServer server_{directory_.Arguments("", "http: {max_body_bytes: 1MiB}")};
};

TEST_F(BadRequestsTest, TheErrorNamesTheField) {
  for (const Wrong& wrong : kWrong) {
    for (const std::string route : {kChatPath, kCompletionsPath}) {
      if (wrong.route != std::string(kBoth) && wrong.route != route) continue;
      Json body = Base(route);
      body[wrong.member] = Json::parse(wrong.value);
      const HttpReply reply = Send(route, body.dump());
      SCOPED_TRACE(route + " " + wrong.member + " " + wrong.value + " " + reply.body);
      EXPECT_EQ(reply.status, 400);
      const Json error = reply.json().at("error");
      EXPECT_EQ(error.at("type"), "invalid_request_error");
      const Json param = wrong.param == nullptr ? wrong.member : wrong.param;
      EXPECT_EQ(error.at("param"), param == "" ? Json() : param);
      EXPECT_NE(error.at("message"), "");
    }
  }
  ExpectServes();
  EXPECT_EQ(server_.connection().Sessions("m").size(), 1u) << "that of the chat that was right";
  EXPECT_EQ(server_.process().Stop(), 0);
}

// The server checks these.
TEST_F(BadRequestsTest, TheServersErrorsComeThrough) {
  const Wrong refused[] = {
      {kBoth, "logit_bias", "{\"256\": 1}"},
      {kBoth, "stop_token_ids", "[256]"},
      {kBoth, "stop", "\"\""},
      {kBoth, "min_tokens", "6"},  // more than max_tokens
      {kChatPath, "messages", "[{\"role\": \"a b\", \"content\": \"c\"}]"},
      {kCompletionsPath, "prompt", "[256]"},
      {kCompletionsPath, "prompt", "\"\""},
      {kCompletionsPath, "prompt", "[]"},
  };
  for (const Wrong& wrong : refused) {
    for (const std::string route : {kChatPath, kCompletionsPath}) {
      if (wrong.route != std::string(kBoth) && wrong.route != route) continue;
      Json body = Base(route);
      body[wrong.member] = Json::parse(wrong.value);
      for (const bool stream : {false, true}) {
        body["stream"] = stream;
        const HttpReply reply = Send(route, body.dump());
        EXPECT_EQ(reply.status, 400) << body << reply.body;
        EXPECT_NE(reply.json().at("error").at("code"), nullptr);
      }
    }
  }
  EXPECT_EQ(server_.connection().Sessions("m").size(), 0u);
  ExpectServes();
}

TEST_F(BadRequestsTest, TooManySmallMessages) {
  Json body = Base(kChatPath);
  body["messages"] = Json::array();
  for (int i = 0; i < 1500; ++i) {
    body["messages"].push_back({{"role", "user"}, {"content", "a"}});
  }
  const HttpReply reply = Send(kChatPath, body.dump());
  EXPECT_EQ(reply.status, 400);
  const std::string text = reply.json().at("error").at("message");
  EXPECT_THAT(text, HasSubstr("the request has too many small parts, such as messages"));
  EXPECT_THAT(reply.json().at("error").at("param").get<std::string>(),
              testing::StartsWith("messages["));
  body["messages"].erase(body["messages"].begin() + 1000, body["messages"].end());
  EXPECT_EQ(Send(kChatPath, body.dump()).status, 200);
  ExpectServes();
}

TEST_F(BadRequestsTest, BodiesThatAreNoJsonObject) {
  std::string many_members = "{";
  for (int i = 0; i < 2000; ++i) many_members += "\"" + std::to_string(i) + "\": 1, ";
  const std::string bodies[] = {"{",
                                "[]",
                                "7",
                                "\"abc\"",
                                "null",
                                "{\"model\": \"m\"} x",
                                "{\"model\": \"\xff\"}",
                                "{\"model\": \"\\ud800\"}",
                                "{'model': 'm'}",
                                "{\"a\": NaN}",
                                std::string(100'000, '['),
                                many_members + "\"x\": 1}"};
  for (const std::string& body : bodies) {
    for (const char* const route : {kChatPath, kCompletionsPath}) {
      const HttpReply reply = Send(route, body);
      EXPECT_EQ(reply.status, 400) << body.substr(0, 100);
      EXPECT_EQ(reply.json().at("error").at("param"), nullptr);
    }
  }
  EXPECT_EQ(Send(kChatPath, "").status, 400);
  ExpectServes();
}

TEST_F(BadRequestsTest, PathsAndMethods) {
  Json unknown = Base(kChatPath);
  unknown["model"] = "nobody";
  const HttpReply no_model = Send(kChatPath, unknown.dump());
  EXPECT_EQ(no_model.status, 404);
  EXPECT_THAT(no_model.body, HasSubstr("nobody"));
  unknown = Base(kCompletionsPath);
  unknown["model"] = "nobody";
  EXPECT_EQ(Send(kCompletionsPath, unknown.dump()).status, 404);
  EXPECT_EQ(Get(server_.http(), "/v1/models/nobody").status, 404);
  EXPECT_EQ(Get(server_.http(), "/v1/models/m").status, 200);
  EXPECT_EQ(Get(server_.http(), "/v1/models?limit=3").status, 200);
  for (const char* const path : {"/page/none", "/v1", "/v1/", "/v1/chat", "/v1/chat/completions/",
                                 "/metrics", "/v1/modelsx", "/v2/models", "*"}) {
    const HttpReply reply = Get(server_.http(), path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_EQ(reply.json().at("error").at("type"), "not_found_error");
  }
  const std::pair<const char*, const char*> allowed[] = {{kChatPath, "POST"},
                                                         {kCompletionsPath, "POST"},
                                                         {"/v1/models", "GET"},
                                                         {"/v1/models/m", "GET"},
                                                         {"/health", "GET"}};
  for (const auto& [path, method] : allowed) {
    for (const std::string other : {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
      if (other == method) continue;
      const HttpReply reply = Ask(server_.http(), other, path);
      EXPECT_EQ(reply.status, 405) << other << " " << path;
      EXPECT_EQ(reply.headers.at("allow"), method);
    }
  }
  ExpectServes();
}

TEST_F(BadRequestsTest, BodiesThatAreTooLong) {
  Json body = Base(kChatPath);
  body["messages"][0]["content"] = std::string(2 << 20, 'x');
  const HttpReply reply = Send(kChatPath, body.dump());
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.body, HasSubstr("1048576"));
  // It fits, but not into the context.
  body["messages"][0]["content"] = std::string(1'000'000, 'x');
  EXPECT_EQ(Send(kChatPath, body.dump()).status, 400);
  EXPECT_EQ(Get(server_.http(), "/health", {{"x", std::string(20'000, 'x')}}).status, 431);
  ExpectServes();
  EXPECT_EQ(server_.process().Stop(), 0);
}

TEST_F(BadRequestsTest, AnIdOfARequestComesBackIfItIsUsable) {
  const auto id_for = [&](const std::string& id) {
    return Get(server_.http(), "/health", {{"x-request-id", id}}).headers.at("x-request-id");
  };
  EXPECT_EQ(id_for("my-id"), "my-id");
  for (const std::string& other :
       {std::string("a b"), std::string("\xc3\xa9"), std::string(200, 'x'), std::string()}) {
    EXPECT_EQ(id_for(other).size(), 32u) << other;
  }
}

}  // namespace
}  // namespace longstream
