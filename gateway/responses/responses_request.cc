// Translates items into messages.
#include "gateway/responses/responses_request.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "gateway/requests/answer_format.h"
#include "gateway/requests/common_fields.h"
#include "gateway/requests/sampling_fields.h"
#include "gateway/requests/tool_choice.h"

namespace longstream::gateway {
namespace {

std::string TextOfParts(const Json& content, const std::string& path) {
  return TextOfContent(content, path, {"input_text", "output_text", "text"});
}

// Makes messages of items. Texts of the model and the calls before, between and behind them are one
// message: the model wrote them in one reply.
class ItemReader {
 public:
  explicit ItemReader(std::vector<v1::Message>* messages) : messages_(messages) {}

  void Add(const Json& value, const std::string& path) {
    JsonObject item(value, path);
    const std::string type = item.Text("type").value_or("message");
    if (type == "message") return AddMessage(item);
    if (type == "function_call") return AddCall(item);
    if (type == "reasoning") return AddThoughts(item);
    EndReply();
    if (type == "function_call_output") return AddResult(item);
    throw BadRequest(item.PathOf("type"),
                     "items of this type are not offered here: " + Shown(Json(type)));
  }

  void End() { EndReply(); }

 private:
  // The texts of the content or, if there are none, of the summary. Thoughts within a reply are
  // dropped: templates have a place for them at its beginning.
  void AddThoughts(JsonObject& item) {
    if (takes_calls_ || !calls_.empty()) return;
    thoughts_.clear();
    for (const char* const name : {"content", "summary"}) {
      const Json* const parts = item.Find(name);
      if (parts == nullptr || !parts->is_array() || !thoughts_.empty()) continue;
      thoughts_ = TextOfContent(*parts, item.PathOf(name), {"reasoning_text", "summary_text"});
    }
  }

  void AddMessage(JsonObject& item) {
    const std::string role = item.RequiredText("role");
    const Json* const content = item.Find("content");
    if (content == nullptr) throw BadRequest(item.PathOf("content"), "the content is missing");
    const std::string text = TextOfParts(*content, item.PathOf("content"));
    const bool is_reply = role == "assistant";
    if (is_reply && !calls_.empty()) {
      v1::Message& reply = messages_->back();
      reply.set_content(reply.content() + text);
      return;
    }
    EndReply(/*another_follows=*/is_reply);
    v1::Message& message = messages_->emplace_back();
    message.set_role(role == "developer" ? "system" : role);
    message.set_content(text);
    takes_calls_ = is_reply;
    if (!is_reply) return;
    reply_thoughts_ = std::exchange(thoughts_, "");
    SetMembers(reply_thoughts_, Json::array(), &message);
  }

  void AddCall(JsonObject& item) {
    if (calls_.empty() && !takes_calls_) {
      messages_->emplace_back().set_role("assistant");
      reply_thoughts_ = std::exchange(thoughts_, "");
    }
    Json arguments = ArgumentsOf(item.Text("arguments").value_or(""), item.PathOf("arguments"));
    calls_.push_back(
        {{"id", item.RequiredText("call_id")},
         {"type", "function"},
         {"function", {{"name", item.RequiredText("name")}, {"arguments", std::move(arguments)}}}});
  }

  void AddResult(JsonObject& item) {
    v1::Message& message = messages_->emplace_back();
    message.set_role("tool");
    const Json* const output = item.Find("output");
    message.set_content(output == nullptr ? "" : TextOfParts(*output, item.PathOf("output")));
    message.set_json(Json({{"tool_call_id", item.RequiredText("call_id")}}).dump());
    takes_calls_ = false;
  }

  // The last message gets its calls. A reply of thoughts alone becomes a message.
  void EndReply(bool another_follows = false) {
    if (!calls_.empty()) {
      SetMembers(reply_thoughts_, std::exchange(calls_, Json::array()), &messages_->back());
      takes_calls_ = false;
    }
    if (another_follows || thoughts_.empty()) return;
    v1::Message& message = messages_->emplace_back();
    message.set_role("assistant");
    message.set_content("");
    SetMembers(std::exchange(thoughts_, ""), Json::array(), &message);
  }

  std::vector<v1::Message>* const messages_;
  bool takes_calls_ = false;    // the last message is one of the model, without calls
  Json calls_ = Json::array();  // of the last message
  std::string thoughts_;        // of the next message
  std::string reply_thoughts_;  // of the last message
};

std::vector<v1::Message> ReadInput(JsonObject& body) {
  std::vector<v1::Message> messages;
  const Json* const input = body.Find("input");
  if (input == nullptr) throw BadRequest("input", "the input is missing");
  if (input->is_string()) {
    messages.emplace_back();
    messages.back().set_role("user");
    messages.back().set_content(input->get<std::string>());
    return messages;
  }
  if (!input->is_array() || input->empty()) {
    throw BadRequest("input", "expected a string or an array of items, found " + Shown(*input));
  }
  ItemReader items(&messages);
  for (size_t i = 0; i < input->size(); ++i) items.Add((*input)[i], At("input", i));
  items.End();
  return messages;
}

// Returns whether the model may call functions.
bool ReadToolsOfResponse(JsonObject& body, v1::GenerateRequest* request) {
  const Json* const tools = ToolList(body);
  Json functions = Json::array();
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    JsonObject tool((*tools)[i], At("tools", i));
    const std::string type = tool.RequiredText("type");
    if (type != "function") {
      throw BadRequest(tool.PathOf("type"),
                       "only \"function\" is offered, found " + Shown(Json(type)));
    }
    functions.push_back(FunctionTool(tool, tool.Find("parameters")));
  }
  std::optional<v1::ResponseFormat> format;
  if (const Json* const text = body.Find("text"); text != nullptr) {
    format = ReadFormat(JsonObject(*text, "text").Find("format"), "text.format");
  }
  return OfferTools(functions, ReadToolChoice(body), std::move(format), request);
}

// Reads the fields of features that are not offered, or only in part.
void ReadOtherFields(JsonObject& body, v1::Messages* messages) {
  if (const Json* const reasoning = body.Find("reasoning"); reasoning != nullptr) {
    JsonObject fields(*reasoning, "reasoning");
    const auto effort = fields.Text("effort");
    if (effort) messages->set_template_arguments(Json({{"reasoning_effort", *effort}}).dump());
  }
  body.Refuse("conversation", "conversations are not offered; use previous_response_id");
  body.Refuse("prompt", "stored prompts are not offered");
  body.Refuse("truncation", "a conversation is never cut (\"disabled\")", "disabled");
  body.Refuse("top_logprobs", "log-probabilities are in /v1/chat/completions", 0);
  body.Ignore({"include", "max_tool_calls", "prompt_cache_key", "prompt_cache_options",
               "prompt_cache_retention", "safety_identifier", "service_tier", "stream_options",
               "user"});
}

// As OpenAI's API limits them.
void CheckMetadata(const Json& metadata) {
  constexpr size_t kMostPairs = 16;
  constexpr size_t kMostName = 64;
  constexpr size_t kMostValue = 512;
  const JsonObject checked(metadata, "metadata");
  bool fits = metadata.size() <= kMostPairs;
  for (const auto& [name, value] : metadata.items()) {
    fits = fits && name.size() <= kMostName && value.is_string() &&
           value.get_ref<const std::string&>().size() <= kMostValue;
  }
  if (fits) return;
  throw BadRequest("metadata",
                   "expected at most 16 pairs of a name of 64 bytes and a string of 512");
}

// The members of the request that its response and some of its events repeat.
Json Repeated(const Json& body) {
  Json repeated = Json::object();
  for (const char* const name :
       {"instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p"}) {
    const auto found = body.find(name);
    repeated[name] = found == body.end() ? Json() : *found;
  }
  // Long ones would take a multiple of their bytes.
  constexpr size_t kMostRepeated = 16 << 10;
  const auto is_long = [](const Json& value) { return value.dump().size() > kMostRepeated; };
  if (is_long(repeated["instructions"])) repeated["instructions"] = nullptr;
  const auto member = [&body](const char* name, const Json& by_default) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? by_default : *found;
  };
  repeated["metadata"] = member("metadata", Json::object());
  repeated["parallel_tool_calls"] = member("parallel_tool_calls", true);
  repeated["background"] = member("background", false);
  repeated["store"] = member("store", true);
  repeated["tool_choice"] = member("tool_choice", "auto");
  repeated["tools"] = member("tools", Json::array());
  if (is_long(repeated["tools"])) repeated["tools"] = Json::array();
  repeated["text"] = member("text", {{"format", {{"type", "text"}}}});
  if (is_long(repeated["text"])) repeated["text"] = Json::object();
  repeated["truncation"] = "disabled";
  return repeated;
}

}  // namespace

ResponsesRequest ReadResponsesRequest(const Json& body) {
  JsonObject object(body, "");
  ResponsesRequest read;
  read.model = object.Text("model").value_or("");
  read.stream = object.Bool("stream").value_or(false);
  read.store = object.Bool("store").value_or(true);
  read.background = object.Bool("background").value_or(false);
  if (read.background && !read.store) {
    throw BadRequest("background", "a response in the background must be stored (store: true)");
  }
  read.instructions = object.Text("instructions");
  read.previous_response_id = object.Text("previous_response_id").value_or("");
  read.messages = ReadInput(object);
  v1::Messages* const messages = read.request.mutable_input()->mutable_messages();
  ReadSampling(object, read.request.mutable_sampling());
  ReadStopRule(object, read.request.mutable_stop());
  const auto most = object.Integer("max_output_tokens", 1, std::numeric_limits<uint32_t>::max());
  if (most.has_value()) read.request.set_max_tokens(static_cast<uint32_t>(*most));
  if (const Json* const metadata = object.Find("metadata"); metadata != nullptr) {
    CheckMetadata(*metadata);
  }
  ReadOtherFields(object, messages);
  read.with_calls = ReadToolsOfResponse(object, &read.request);
  object.ExpectAllRead();
  read.repeated = Repeated(body);
  return read;
}

}  // namespace longstream::gateway
