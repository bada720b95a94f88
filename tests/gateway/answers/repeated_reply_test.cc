// A client repeats an answer in its next request. The message that the gateway reads then must be
// the one that it remembers, or the next turn would not find its session.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "gateway/answers/answer_writer.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/anthropic/messages_writer.h"
#include "gateway/openai/chat_request.h"
#include "gateway/openai/chat_writer.h"
#include "gateway/responses/responses_request.h"
#include "gateway/responses/responses_writer.h"

namespace longstream::gateway {
namespace {

ToolCall Call(const std::string& id, const std::string& name, const std::string& arguments) {
  return {id, name, Json::parse(arguments)};
}

std::vector<Reply> Replies() {
  const ToolCall f = Call("call_1", "f", R"({"b": [1, {"x": null}], "a": "ü\n"})");
  const ToolCall g = Call("call_2", "g", "{}");
  return {{"Hello.", {}},
          {"", {}},
          {" spaces \n", {}},
          {"", {f}},
          {"", {f, g}},
          {"Wait.", {g}},
          {"Wait.\n", {f, g}},
          {"Hello.", {}, "Well."},
          {"", {}, "Well,\n so"},
          {"", {f}, "Well."},
          {"Wait.", {f, g}, "Well."}};
}

// The members without regard to their order.
std::string Sorted(const std::string& json) {
  return json.empty() ? "" : nlohmann::json::parse(json).dump();
}

void ExpectSame(const v1::Message& read, const Reply& reply, const char* api) {
  const v1::Message remembered = MessageOf(reply);
  EXPECT_EQ(read.role(), remembered.role()) << api;
  EXPECT_EQ(read.content(), remembered.content()) << api;
  EXPECT_EQ(Sorted(read.json()), Sorted(remembered.json())) << api << ": " << reply.text;
}

struct Turn {
  explicit Turn(const Reply& made) : reply(made) {
    generation.text = reply.text;
    generation.finish.set_reason(v1::FINISH_REASON_STOP_TOKEN);
  }
  EndedTurn ended() const { return {generation, reply, usage, receipt}; }

  const Reply& reply;
  client::Generation generation;
  Usage usage;
  Receipt receipt;
};

TEST(RepeatedReplyTest, ChatCompletions) {
  for (const Reply& reply : Replies()) {
    const Turn turn(reply);
    ChatChoice choice(0, {"chatcmpl-1", 0, "m"}, false, false);
    const Json message = choice.Whole(turn.ended())["message"];
    const ChatRequest read = ReadChatRequest(
        {{"messages", Json::array({{{"role", "user"}, {"content", "x"}}, message})}});
    ASSERT_EQ(read.fields.request.input().messages().messages_size(), 2);
    ExpectSame(read.fields.request.input().messages().messages(1), reply, "chat completions");
  }
}

TEST(RepeatedReplyTest, Messages) {
  for (const Reply& reply : Replies()) {
    const Turn turn(reply);
    MessagesWriter writer("msg_1", "m");
    const Json content = writer.Whole(turn.ended())["content"];
    const MessagesRequest read = ReadMessagesRequest(
        {{"max_tokens", 1},
         {"messages", Json::array({{{"role", "user"}, {"content", "x"}},
                                   {{"role", "assistant"}, {"content", content}}})}});
    ASSERT_EQ(read.request.input().messages().messages_size(), 2);
    ExpectSame(read.request.input().messages().messages(1), reply, "messages");
  }
}

// The pieces of a reply in which the model writes text before, between and behind calls.
std::vector<Reply> Pieces() {
  const ToolCall f = Call("call_1", "f", R"({"a": 1})");
  const ToolCall g = Call("call_2", "g", "{}");
  return {{"Wait", {}}, {".\n", {f}}, {"More", {}}, {"", {g}}, {" text.", {}}};
}

Reply Joined(const std::vector<Reply>& pieces) {
  Reply joined;
  for (const Reply& piece : pieces) {
    joined.text += piece.text;
    joined.calls.insert(joined.calls.end(), piece.calls.begin(), piece.calls.end());
  }
  return joined;
}

TEST(RepeatedReplyTest, TheItemsOfAStreamedResponse) {
  const std::vector<Reply> pieces = Pieces();
  // Also a reply that begins with a call.
  for (const size_t from : {0u, 3u}) {
    const std::vector<Reply> some(pieces.begin() + static_cast<std::ptrdiff_t>(from), pieces.end());
    const Reply reply = Joined(some);
    const Turn turn(reply);
    ResponsesWriter writer("resp_1", 0, "m", Json::object());
    writer.Begin({});
    for (const Reply& piece : some) writer.Piece({}, piece);
    writer.End(turn.ended(), {});
    Json input = Json::array({{{"role", "user"}, {"content", "x"}}});
    for (const Json& item : writer.response()["output"]) input.push_back(item);
    const ResponsesRequest read = ReadResponsesRequest({{"input", input}});
    ASSERT_EQ(read.messages.size(), 2u) << input.dump();
    ExpectSame(read.messages[1], reply, "responses");
  }
}

TEST(RepeatedReplyTest, TheBlocksOfAStreamedMessage) {
  const std::vector<Reply> pieces = Pieces();
  const Reply reply = Joined(pieces);
  Json content = Json::array();
  for (const Reply& piece : pieces) {
    if (!piece.text.empty()) content.push_back({{"type", "text"}, {"text", piece.text}});
    for (const ToolCall& call : piece.calls) {
      content.push_back(
          {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", call.arguments}});
    }
  }
  const MessagesRequest read = ReadMessagesRequest(
      {{"max_tokens", 1},
       {"messages", Json::array({{{"role", "user"}, {"content", "x"}},
                                 {{"role", "assistant"}, {"content", content}}})}});
  ExpectSame(read.request.input().messages().messages(1), reply, "messages");
}

// Clients that put a stream together leave further members in its calls.
TEST(RepeatedReplyTest, CallsWithFurtherMembers) {
  const Reply reply{"", {Call("call_1", "f", R"({"a": 1})")}};
  const ChatRequest read = ReadChatRequest(
      {{"messages",
        Json::array({{{"role", "assistant"},
                      {"content", nullptr},
                      {"tool_calls", Json::array({{{"index", 0},
                                                   {"id", "call_1"},
                                                   {"type", "function"},
                                                   {"function",
                                                    {{"name", "f"},
                                                     {"arguments", "{\"a\": 1}"},
                                                     {"parsed_arguments", nullptr}}}}})}}})}});
  ExpectSame(read.fields.request.input().messages().messages(0), reply, "chat completions");
}

TEST(RepeatedReplyTest, Responses) {
  for (const Reply& reply : Replies()) {
    const Turn turn(reply);
    ResponsesWriter writer("resp_1", 0, "m", Json::object());
    Json input = Json::array({{{"role", "user"}, {"content", "x"}}});
    const Json whole = writer.Whole(turn.ended());
    for (const Json& item : whole["output"]) input.push_back(item);
    const ResponsesRequest read = ReadResponsesRequest({{"input", input}});
    ASSERT_EQ(read.messages.size(), 2u) << input.dump();
    ExpectSame(read.messages[1], reply, "responses");
  }
}

// The events of a stream as JSON.
std::vector<Json> EventsIn(const std::string& stream) {
  std::vector<Json> events;
  for (size_t at = 0; (at = stream.find("data: ", at)) != std::string::npos;) {
    at += 6;
    const std::string data = stream.substr(at, stream.find("\n\n", at) - at);
    if (data != "[DONE]") events.push_back(Json::parse(data));
  }
  return events;
}

// The stream of a reply that comes in one piece.
std::string Stream(AnswerWriter& writer, const Turn& turn) {
  std::string stream = writer.Begin({});
  stream += writer.Piece({}, turn.reply);
  return stream + writer.End(turn.ended(), {});
}

TEST(StreamedReplyTest, ResponsesHaveTheItemsOfTheWholeOne) {
  for (const Reply& reply : Replies()) {
    const Turn turn(reply);
    ResponsesWriter writer("resp_1", 0, "m", Json::object());
    const std::vector<Json> events = EventsIn(Stream(writer, turn));
    std::string text;
    std::string thoughts;
    Json items = Json::array();
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i]["sequence_number"], i);
      if (events[i]["type"] == "response.output_text.delta") {
        text += events[i]["delta"].get<std::string>();
      }
      if (events[i]["type"] == "response.reasoning_text.delta") {
        thoughts += events[i]["delta"].get<std::string>();
      }
      if (events[i]["type"] == "response.output_item.done") {
        EXPECT_EQ(events[i]["output_index"], items.size());
        items.push_back(events[i]["item"]);
      }
    }
    EXPECT_EQ(text, reply.text);
    EXPECT_EQ(thoughts, reply.thoughts);
    EXPECT_EQ(events.back()["type"], "response.completed");
    EXPECT_EQ(events.back()["response"]["output"], items);
    EXPECT_EQ(writer.response(), events.back()["response"]);
  }
}

TEST(StreamedReplyTest, MessagesBeginAndEndEachBlock) {
  for (const Reply& reply : Replies()) {
    const Turn turn(reply);
    MessagesWriter writer("msg_1", "m");
    const std::vector<Json> events = EventsIn(Stream(writer, turn));
    EXPECT_EQ(events.front()["type"], "message_start");
    EXPECT_EQ(events.back()["type"], "message_stop");
    const size_t before_calls = (reply.text.empty() ? 0u : 1u) + (reply.thoughts.empty() ? 0u : 1u);
    const size_t blocks = before_calls + reply.calls.size();
    std::string thoughts;
    size_t begun = 0;
    size_t ended = 0;
    std::string text;
    for (const Json& event : events) {
      if (event["type"] == "content_block_start") {
        EXPECT_EQ(begun, ended);
        EXPECT_EQ(event["index"], begun++);
      }
      if (event["type"] == "content_block_stop") {
        EXPECT_EQ(event["index"], ended++);
      }
      if (event["type"] != "content_block_delta") continue;
      EXPECT_EQ(event["index"], ended);
      if (event["delta"]["type"] == "text_delta") {
        text += event["delta"]["text"].get<std::string>();
      } else if (event["delta"]["type"] == "thinking_delta") {
        thoughts += event["delta"]["thinking"].get<std::string>();
      } else {
        const ToolCall& call = reply.calls[ended - before_calls];
        EXPECT_EQ(Json::parse(event["delta"]["partial_json"].get<std::string>()), call.arguments);
      }
    }
    EXPECT_EQ(begun, blocks);
    EXPECT_EQ(ended, blocks);
    EXPECT_EQ(text, reply.text);
    EXPECT_EQ(thoughts, reply.thoughts);
    EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"],
              reply.calls.empty() ? "end_turn" : "tool_use");
  }
}

TEST(StreamedReplyTest, ChatCompletionsNumberTheCalls) {
  for (const Reply& reply : Replies()) {
    const Turn turn(reply);
    ChatChoice writer(0, {"chatcmpl-1", 0, "m"}, true, false);
    // Each call comes in a piece of its own.
    std::string stream = writer.Begin({}) + writer.Piece({}, {reply.text, {}, reply.thoughts});
    for (const ToolCall& call : reply.calls) stream += writer.Piece({}, {"", {call}});
    stream += writer.End(turn.ended(), {});
    std::string text;
    std::string thoughts;
    size_t calls = 0;
    std::string reason;
    for (const Json& event : EventsIn(stream)) {
      if (event["choices"].empty()) continue;
      const Json& choice = event["choices"][0];
      text += choice["delta"].value("content", "");
      thoughts += choice["delta"].value("reasoning_content", "");
      if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"].get<std::string>();
      if (!choice["delta"].contains("tool_calls")) continue;
      for (const Json& call : choice["delta"]["tool_calls"]) {
        EXPECT_EQ(call["index"], calls);
        EXPECT_EQ(call["id"], reply.calls[calls].id);
        EXPECT_EQ(Json::parse(call["function"]["arguments"].get<std::string>()),
                  reply.calls[calls].arguments);
        ++calls;
      }
    }
    EXPECT_EQ(text, reply.text);
    EXPECT_EQ(thoughts, reply.thoughts);
    EXPECT_EQ(calls, reply.calls.size());
    EXPECT_EQ(reason, reply.calls.empty() ? "stop" : "tool_calls");
  }
}

}  // namespace
}  // namespace longstream::gateway
