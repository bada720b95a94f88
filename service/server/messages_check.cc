// Converts messages of a request to those of the chat library, and renders them.
#include "service/server/messages_check.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/jinja/values/json_reader.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

constexpr size_t kMaxRoleBytes = 64;

// The bytes of a message as a value of the template, without its text and its further members.
constexpr uint64_t kMessageBytes = 700;

template <typename... Parts>
absl::Status InvalidMessage(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("input.messages.", parts...));
}

// Templates copy the role into their own text, even next to special tokens. So a role may only have
// safe characters.
bool IsRole(std::string_view role) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !role.empty() && role.size() <= kMaxRoleBytes && std::ranges::all_of(role, is_good);
}

// Reads the JSON of a field. Returns None if the field is empty.
absl::StatusOr<chat::Value> ReadField(const std::string& field, const std::string& json,
                                      RequestCharge* charge) {
  if (json.empty()) return chat::Value();
  uint64_t bytes = 0;
  absl::StatusOr<chat::Value> value =
      chat::ReadJson(json, /*is_foreign=*/true, charge->bytes_left(), &bytes);
  if (!value.ok()) return InvalidMessage(field, ": ", value.status().message());
  if (absl::Status status = charge->Add(bytes); !status.ok()) return status;
  return value;
}

absl::StatusOr<chat::Dict> ReadObject(const std::string& field, const std::string& json,
                                      RequestCharge* charge) {
  absl::StatusOr<chat::Value> value = ReadField(field, json, charge);
  if (!value.ok()) return value.status();
  if (value->is_none()) return chat::Dict();
  if (!value->is_dict()) return InvalidMessage(field, ": expected a JSON object");
  return value->dict();
}

absl::StatusOr<chat::Value> ReadMessage(v1::Message* message, int index, RequestCharge* charge) {
  const std::string name = absl::StrCat("messages[", index, "]");
  if (absl::Status status = charge->Add(kMessageBytes); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("input.messages.", name, ": ", status.message()));
  }
  if (!IsRole(message->role())) {
    return InvalidMessage(name, ".role: expected 1 ... ", kMaxRoleBytes,
                          " letters, digits, '_', '-' and '.', found ", message->role().size(),
                          " bytes");
  }
  chat::Dict dict;
  dict.Set(chat::Text("role"), chat::Value::MakeText(message->role()));
  if (message->has_content()) {
    std::string& content = *message->mutable_content();
    if (const size_t valid = ValidUtf8Prefix(content); valid != content.size()) {
      return InvalidMessage(name, ".content: expected UTF-8, found invalid UTF-8 at byte ", valid);
    }
    dict.Set(chat::Text("content"), chat::Value::MakeText(chat::Text(std::move(content), true)));
  }
  absl::StatusOr<chat::Dict> more = ReadObject(name + ".json", message->json(), charge);
  if (!more.ok()) return more.status();
  for (const chat::Dict::Entry& entry : more->entries()) {
    if (dict.Find(entry.key) != nullptr) {
      return InvalidMessage(name, ".json: ", entry.key.text().bytes(),
                            " must be given in its own field");
    }
    dict.Set(entry.key, entry.value);
  }
  return chat::Value::MakeDict(std::move(dict));
}

size_t BytesOf(const v1::Messages& messages) {
  size_t bytes = messages.tools().size() + messages.template_arguments().size();
  for (const v1::Message& message : messages.messages()) {
    bytes += message.content().size() + message.json().size();
  }
  return bytes;
}

absl::StatusOr<chat::Messages> ReadMessages(v1::Messages* request, bool generates,
                                            const ServedModel& model, RequestCharge* charge) {
  if (BytesOf(*request) > model.max_text_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input.messages: ", BytesOf(*request), " bytes exceed the model's context of ",
                     model.backend().info().context_limit, " tokens, which hold at most ",
                     model.max_text_bytes()));
  }
  chat::Messages messages;
  chat::Conversation& conversation = messages.conversation;
  conversation.messages.reserve(static_cast<size_t>(request->messages_size()));
  for (int i = 0; i < request->messages_size(); ++i) {
    absl::StatusOr<chat::Value> message = ReadMessage(request->mutable_messages(i), i, charge);
    if (!message.ok()) return message.status();
    conversation.messages.push_back(*std::move(message));
  }
  absl::StatusOr<chat::Value> tools = ReadField("tools", request->tools(), charge);
  if (!tools.ok()) return tools.status();
  conversation.tools = *std::move(tools);
  absl::StatusOr<chat::Dict> arguments =
      ReadObject("template_arguments", request->template_arguments(), charge);
  if (!arguments.ok()) return arguments.status();
  conversation.arguments = *std::move(arguments);
  if (const chat::Value* documents = conversation.arguments.Find("documents")) {
    conversation.documents = *documents;
    conversation.arguments.Erase("documents");
  }
  conversation.continue_final_message = request->continue_final_message();
  conversation.add_generation_prompt = request->has_add_generation_prompt()
                                           ? request->add_generation_prompt()
                                           : generates && !request->continue_final_message();
  messages.whole = request->whole_conversation();
  messages.require_unchanged = request->require_unchanged();
  return messages;
}

}  // namespace

absl::StatusOr<chat::Addition> AddMessages(v1::Messages* request, bool parse_special,
                                           bool generates, const ServedModel& model,
                                           const chat::SessionText& session,
                                           RequestCharge* charge) {
  if (!model.chat().ok()) {
    const absl::Status& why = model.chat().status();
    const std::string message =
        absl::StrCat("input.messages: model ", model.name(),
                     " has a chat template that cannot be used: ", why.message());
    return absl::IsUnimplemented(why) ? absl::UnimplementedError(message)
                                      : absl::FailedPreconditionError(message);
  }
  absl::StatusOr<chat::Messages> messages = ReadMessages(request, generates, model, charge);
  if (!messages.ok()) return messages.status();
  messages->parse_special = parse_special;
  absl::StatusOr<chat::Addition> addition =
      chat::AddMessages(*model.chat(), model.tokenizer(), session, *std::move(messages));
  if (addition.ok()) return addition;
  return absl::Status(addition.status().code(),
                      absl::StrCat("input.messages: ", addition.status().message()));
}

}  // namespace longstream
