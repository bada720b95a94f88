// The routes of the gateway before a server whose model writes what the test says.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gateway/gateway.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "tests/e2e/http/http_client.h"

namespace longstream::gateway {
namespace {

using longstream::Json;
using testing::HasSubstr;

constexpr char kThoughts[] = "<think>\nI greet.\n</think>\n\nHello.";

// Generates its script, a delta with one token for each byte, and remembers the last requests.
class ScriptedModel final : public v1::Longstream::Service {
 public:
  std::string script = kThoughts;
  bool begun = false;
  v1::GenerateRequest generated;
  v1::TokenizeRequest tokenized;

 private:
  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest* request,
                           v1::Session* session) override {
    session->set_session_id(request->session_id());
    return grpc::Status::OK;
  }
  grpc::Status ForkSession(grpc::ServerContext*, const v1::ForkSessionRequest* request,
                           v1::Session* session) override {
    session->set_session_id(request->new_session_id());
    return grpc::Status::OK;
  }
  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest*,
                            v1::CloseSessionResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    generated = *request;
    v1::GenerateResponse response;
    v1::TurnStarted* const started = response.mutable_started();
    started->set_turn_id(request->turn_id());
    started->set_prompt_tokens(10);
    started->set_model("thinker");
    started->mutable_thoughts()->set_begin("<think>");
    started->mutable_thoughts()->set_end("</think>");
    started->mutable_thoughts()->set_begun(begun);
    writer->Write(response);
    uint64_t position = 10;
    for (const char byte : script) {
      response.mutable_delta()->set_text(std::string(1, byte));
      response.mutable_delta()->clear_token_ids();
      response.mutable_delta()->add_token_ids(byte);
      response.mutable_delta()->set_position(++position);
      writer->Write(response);
    }
    response.mutable_finish()->set_reason(v1::FINISH_REASON_STOP_TOKEN);
    response.mutable_finish()->mutable_usage()->set_generated_tokens(script.size());
    writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status Tokenize(grpc::ServerContext*, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    tokenized = *request;
    if (request->model() == "none") return {grpc::StatusCode::NOT_FOUND, "model: no model none"};
    response->set_model("thinker");
    response->set_count(3);
    response->set_context_limit(4096);
    if (request->count_only()) return grpc::Status::OK;
    for (const int id : {5, 6, 7}) response->add_token_ids(id);
    if (request->pieces()) {
      for (const char* piece : {"a", "\xff", "\""}) response->add_pieces(piece);
    }
    return grpc::Status::OK;
  }
  grpc::Status Detokenize(grpc::ServerContext*, const v1::DetokenizeRequest* request,
                          v1::DetokenizeResponse* response) override {
    for (const int32_t id : request->token_ids())
      response->mutable_text()->append(1, static_cast<char>(id));
    return grpc::Status::OK;
  }
};

class GatewayRoutesTest : public testing::Test {
 protected:
  GatewayRoutesTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&model_);
    server_ = builder.BuildAndStart();
    Gateway::Options options;
    options.http.listen = "127.0.0.1:0";
    auto gateway =
        Gateway::Start(options, client::Connection::InProcess(server_->InProcessChannel({})));
    EXPECT_TRUE(gateway.ok()) << gateway.status();
    gateway_ = *std::move(gateway);
  }
  ~GatewayRoutesTest() override {
    gateway_.reset();
    server_->Shutdown();
  }

  HttpReply Send(const std::string& path, const Json& body) const {
    return Post(gateway_->port(), path, body);
  }
  Json Ok(const std::string& path, const Json& body) const {
    const HttpReply reply = Send(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
  }
  std::vector<Json> Events(const std::string& path, Json body) const {
    body["stream"] = true;
    HttpStream stream(gateway_->port(), path, body);
    std::vector<Json> events;
    for (const std::string& event : stream.Rest()) {
      if (event != "[DONE]") events.push_back(Json::parse(event));
    }
    return events;
  }

  ScriptedModel model_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Gateway> gateway_;
};

Json Messages(const Json& more = Json::array()) {
  Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  for (const Json& message : more) messages.push_back(message);
  return messages;
}

TEST_F(GatewayRoutesTest, ChatsHaveThoughtsOfTheirOwn) {
  for (const bool begun : {false, true}) {
    model_.begun = begun;
    model_.script = begun ? "I greet.\n</think>\n\nHello." : kThoughts;
    const Json body = {{"messages", Messages()}};
    const Json answer = Ok("/v1/chat/completions", body);
    const Json& message = answer["choices"][0]["message"];
    EXPECT_EQ(message["content"], "Hello.");
    EXPECT_EQ(message["reasoning_content"], "I greet.");
    EXPECT_EQ(answer["model"], "thinker") << "the request names none";
    EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"],
              model_.script.find("\n\nHello.") - (begun ? 0 : 6));
    std::string text, thoughts;
    for (const Json& event : Events("/v1/chat/completions", body)) {
      EXPECT_EQ(event["model"], "thinker");
      const Json& delta = event["choices"][0]["delta"];
      text += delta.value("content", "");
      thoughts += delta.value("reasoning_content", "");
    }
    EXPECT_EQ(text, "Hello.");
    EXPECT_EQ(thoughts, "I greet.");
  }
}

TEST_F(GatewayRoutesTest, ThoughtsStayInTheTextIfWanted) {
  const Json body = {{"messages", Messages()}, {"separate_reasoning", false}};
  const Json message = Ok("/v1/chat/completions", body)["choices"][0]["message"];
  EXPECT_EQ(message["content"], kThoughts);
  EXPECT_FALSE(message.contains("reasoning_content"));
}

TEST_F(GatewayRoutesTest, AnAnswerThatEndsWithinThoughts) {
  model_.script = "<think>I gre";
  const Json message =
      Ok("/v1/chat/completions", {{"messages", Messages()}})["choices"][0]["message"];
  EXPECT_EQ(message["content"], "");
  EXPECT_EQ(message["reasoning_content"], "I gre");
}

// The index finds the session of an answer, in whichever form the client repeats it.
TEST_F(GatewayRoutesTest, ARepeatedAnswerFindsItsSession) {
  const Json forms = Json::array({
      {{"role", "assistant"}, {"content", "Hello."}},
      {{"role", "assistant"}, {"content", "Hello."}, {"reasoning_content", "I greet."}},
      {{"role", "assistant"}, {"content", "Hello."}, {"reasoning", "I greet."}},
      {{"role", "assistant"}, {"content", kThoughts}},
  });
  for (const bool separate : {true, false}) {
    for (const Json& form : forms) {
      const std::string topic = std::to_string(separate) + form.dump();
      Json messages = Json::array({{{"role", "user"}, {"content", topic}}});
      Ok("/v1/chat/completions", {{"messages", messages}, {"separate_reasoning", separate}});
      messages.push_back(form);
      messages.push_back({{"role", "user"}, {"content", "More"}});
      const Json second = Ok("/v1/chat/completions", {{"messages", messages}});
      EXPECT_EQ(second["longstream"]["session"], "continued") << topic;
    }
  }
  // The template gets the thoughts, by the name that templates know.
  Ok("/v1/chat/completions", {{"messages", Messages(Json::array({forms[2]}))}});
  EXPECT_EQ(model_.generated.input().messages().messages(1).json(),
            R"({"reasoning_content":"I greet."})");
}

TEST_F(GatewayRoutesTest, AnthropicsMessagesHaveThinkingBlocks) {
  const Json body = {{"max_tokens", 100}, {"messages", Messages()}};
  const Json answer = Ok("/v1/messages", body);
  EXPECT_EQ(answer["model"], "thinker");
  ASSERT_EQ(answer["content"].size(), 2u);
  EXPECT_EQ(answer["content"][0]["type"], "thinking");
  EXPECT_EQ(answer["content"][0]["thinking"], "I greet.");
  EXPECT_EQ(answer["content"][1]["text"], "Hello.");
  std::string kinds, thoughts;
  for (const Json& event : Events("/v1/messages", body)) {
    if (event["type"] == "content_block_start") {
      kinds += event["content_block"]["type"].get<std::string>() + " ";
    }
    if (event["type"] == "content_block_stop") kinds += "end ";
    if (event["type"] == "content_block_delta") thoughts += event["delta"].value("thinking", "");
  }
  EXPECT_EQ(kinds, "thinking end text end ");
  EXPECT_EQ(thoughts, "I greet.");

  const Json again = {{"max_tokens", 100},
                      {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}},
                      {"messages", Messages(Json::array({
                                       {{"role", "assistant"}, {"content", answer["content"]}},
                                       {{"role", "user"}, {"content", "More"}},
                                   }))}};
  Ok("/v1/messages", again);
  const v1::Messages& messages = model_.generated.input().messages();
  EXPECT_EQ(messages.messages(1).json(), R"({"reasoning_content":"I greet."})");
  EXPECT_EQ(messages.messages(1).content(), "Hello.");
  EXPECT_EQ(messages.template_arguments(), R"({"enable_thinking":true})");
}

TEST_F(GatewayRoutesTest, ResponsesHaveReasoningItems) {
  const Json first = Ok("/v1/responses", {{"input", "Hi"}});
  EXPECT_EQ(first["model"], "thinker");
  ASSERT_EQ(first["output"].size(), 2u);
  EXPECT_EQ(first["output"][0]["type"], "reasoning");
  EXPECT_EQ(first["output"][0]["content"][0]["text"], "I greet.");
  EXPECT_EQ(first["output"][1]["content"][0]["text"], "Hello.");
  const Json second =
      Ok("/v1/responses", {{"input", "More"}, {"previous_response_id", first["id"]}});
  EXPECT_EQ(second["longstream"]["session"], "continued");
  EXPECT_EQ(model_.generated.input().messages().messages(1).json(),
            R"({"reasoning_content":"I greet."})");
  std::string thoughts;
  for (const Json& event : Events("/v1/responses", {{"input", "Hi"}})) {
    if (event["type"] == "response.reasoning_text.delta") {
      thoughts += event["delta"].get<std::string>();
    }
  }
  EXPECT_EQ(thoughts, "I greet.");
}

TEST_F(GatewayRoutesTest, TokenizeTakesTheFormsOfOtherServers) {
  const Json text = Ok("/tokenize", {{"model", "m"}, {"prompt", "Hi"}});
  EXPECT_EQ(
      text,
      Json({{"count", 3}, {"max_model_len", 4096}, {"model", "thinker"}, {"tokens", {5, 6, 7}}}));
  EXPECT_EQ(model_.tokenized.model(), "m");
  EXPECT_EQ(model_.tokenized.input().text(), "Hi");
  EXPECT_TRUE(model_.tokenized.add_special());
  EXPECT_FALSE(model_.tokenized.count_only());

  Ok("/tokenize", {{"prompt", "Hi"}, {"add_special_tokens", false}, {"parse_special", true}});
  EXPECT_FALSE(model_.tokenized.add_special());
  EXPECT_TRUE(model_.tokenized.parse_special());

  EXPECT_EQ(Ok("/tokenize", {{"content", "Hi"}})["tokens"], Json({5, 6, 7}));
  EXPECT_EQ(model_.tokenized.input().text(), "Hi");
  EXPECT_TRUE(model_.tokenized.has_add_special());
  EXPECT_FALSE(model_.tokenized.add_special());

  const Json chat = Ok("/tokenize", {{"messages", Messages()},
                                     {"add_generation_prompt", false},
                                     {"chat_template_kwargs", {{"x", 1}}},
                                     {"return_token_strs", true}});
  EXPECT_EQ(chat["token_strs"], Json({"a", "\uFFFD", "\""}));
  const v1::Messages& messages = model_.tokenized.input().messages();
  EXPECT_EQ(messages.messages(0).content(), "Hi");
  EXPECT_FALSE(messages.add_generation_prompt());
  EXPECT_EQ(messages.template_arguments(), R"({"x":1})");
}

TEST_F(GatewayRoutesTest, DetokenizeHasTheMembersOfOtherServers) {
  const Json text = Ok("/detokenize", {{"tokens", {'H', 'i'}}});
  EXPECT_EQ(text["prompt"], "Hi");
  EXPECT_EQ(text["content"], "Hi");
}

TEST_F(GatewayRoutesTest, WrongRequestsForTokensNameTheField) {
  const std::pair<Json, std::string> wrong[] = {
      {Json::object(), "prompt"},
      {{{"prompt", 5}}, "prompt"},
      {{{"prompt", Json::array({1})}}, "prompt"},
      {{{"content", "x"}, {"with_pieces", true}}, "with_pieces"},
      {{{"messages", Json::array()}}, "messages"},
      {{{"prompt", "x"}, {"promt", "y"}}, "promt"},
  };
  for (const auto& [body, param] : wrong) {
    const HttpReply reply = Send("/tokenize", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.json()["error"]["param"], param) << reply.body;
  }
  for (const Json& tokens : {Json(5), Json::array({-1}), Json::array({"a"}), Json()}) {
    const HttpReply reply = Send("/detokenize", {{"tokens", tokens}});
    EXPECT_EQ(reply.status, 400) << tokens;
    EXPECT_EQ(reply.json()["error"]["param"], "tokens") << reply.body;
  }
  const HttpReply unknown = Send("/tokenize", {{"prompt", "x"}, {"model", "none"}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(Get(gateway_->port(), "/tokenize").status, 405);
}

TEST_F(GatewayRoutesTest, AnthropicsClientsCountTokens) {
  const Json body = {{"model", "m"},
                     {"system", "Be brief."},
                     {"tools", {{{"name", "f"}, {"input_schema", {{"type", "object"}}}}}},
                     {"messages", Messages()}};
  EXPECT_EQ(Ok("/v1/messages/count_tokens", body), Json({{"input_tokens", 3}}));
  const v1::Messages& messages = model_.tokenized.input().messages();
  EXPECT_TRUE(model_.tokenized.count_only());
  EXPECT_EQ(messages.messages(0).role(), "system");
  EXPECT_THAT(messages.tools(), HasSubstr("\"f\""));
  const HttpReply wrong = Send("/v1/messages/count_tokens", {{"model", "m"}});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.json()["type"], "error");
  EXPECT_EQ(wrong.json()["error"]["type"], "invalid_request_error");
}

Json Function(const char* name) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"parameters", {{"type", "object"}}}}}};
}

TEST_F(GatewayRoutesTest, EachApiHasItsNamesForFormats) {
  const Json schema = {{"type", "object"}, {"properties", {{"b", true}, {"a", true}}}};
  const std::string text = schema.dump();
  const Json of_openai = {{"type", "json_schema"},
                          {"json_schema", {{"name", "n"}, {"schema", schema}, {"strict", true}}}};
  const Json flat = {{"type", "json_schema"}, {"name", "n"}, {"schema", schema}};
  const struct {
    const char* path;
    Json body;
  } requests[] = {
      {"/v1/chat/completions", {{"messages", Messages()}, {"response_format", of_openai}}},
      {"/v1/chat/completions", {{"messages", Messages()}, {"guided_json", schema}}},
      {"/v1/chat/completions", {{"messages", Messages()}, {"json_schema", text}}},
      {"/v1/chat/completions",
       {{"messages", Messages()}, {"structured_outputs", {{"json", schema}}}}},
      {"/v1/completions", {{"prompt", "x"}, {"response_format", of_openai}}},
      {"/v1/responses", {{"input", "Hi"}, {"text", {{"format", flat}}}}},
      {"/v1/messages", {{"max_tokens", 5}, {"messages", Messages()}, {"output_format", flat}}},
      {"/v1/messages",
       {{"max_tokens", 5}, {"messages", Messages()}, {"output_config", {{"format", flat}}}}},
  };
  for (const auto& [path, body] : requests) {
    Ok(path, body);
    EXPECT_EQ(model_.generated.response_format().json_schema(), text)
        << path << body << ": the order of the members stays";
  }
  Ok("/v1/chat/completions", {{"messages", Messages()}, {"response_format", {{"type", "text"}}}});
  EXPECT_FALSE(model_.generated.has_response_format());
  Ok("/v1/chat/completions", {{"messages", Messages()}, {"guided_regex", "a+"}});
  EXPECT_EQ(model_.generated.response_format().regex(), "a+");
  EXPECT_TRUE(model_.generated.response_format().after_thoughts());
  Ok("/v1/completions", {{"prompt", "x"}, {"grammar", "root ::= \"a\""}});
  EXPECT_EQ(model_.generated.response_format().grammar(), "root ::= \"a\"");
}

TEST_F(GatewayRoutesTest, ACallCanBeForced) {
  model_.script = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  Json body = {{"messages", Messages()},
               {"tools", {Function("f"), Function("g")}},
               {"tool_choice", "required"}};
  const Json answer = Ok("/v1/chat/completions", body);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  const v1::ResponseFormat forced = model_.generated.response_format();
  EXPECT_EQ(forced.any_of().formats_size(), 3) << "a model knows one of three forms";
  EXPECT_THAT(forced.ShortDebugString(), HasSubstr("\\\"name\\\": \\\"g\\\""));
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "f"}}}};
  Ok("/v1/chat/completions", body);
  EXPECT_THAT(model_.generated.response_format().ShortDebugString(),
              testing::Not(HasSubstr("\\\"name\\\": \\\"g\\\"")));
  body["tool_choice"] = "auto";
  Ok("/v1/chat/completions", body);
  EXPECT_FALSE(model_.generated.has_response_format());
  body["response_format"] = {{"type", "json_object"}};
  Ok("/v1/chat/completions", body);
  ASSERT_EQ(model_.generated.response_format().any_of().formats_size(), 2)
      << "the answer has its form, or is a call";
  EXPECT_TRUE(model_.generated.response_format().any_of().formats(0).has_json_object());
}

}  // namespace
}  // namespace longstream::gateway
