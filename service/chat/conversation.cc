// Normalizes the messages and renders them. To continue the last message, puts a mark behind it and
// cuts the rendered text at the mark.
#include "service/chat/conversation.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/jinja/values/unicode.h"

namespace longstream::chat {
namespace {

constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";

// Names of the member of a message that holds its reasoning. Templates read the first two.
constexpr std::array<std::string_view, 3> kReasoning = {"reasoning_content", "thinking",
                                                        "reasoning"};

std::string_view Stripped(std::string_view text) {
  const size_t begin = StripBegin(text, nullptr);
  return text.substr(begin, StripEnd(text, begin, nullptr) - begin);
}

// Whether PutRight would return an equal message.
bool IsRight(const Dict& message) {
  return std::ranges::none_of(message.entries(), [](const Dict::Entry& entry) {
    return entry.value.is_none() ||
           std::ranges::find(kReasoning, entry.key.text().bytes()) != kReasoning.end();
  });
}

// Returns the message without the members that are None. If the message has reasoning, the result
// holds it under both names that templates read.
Dict PutRight(const Dict& message) {
  Dict given;
  for (const Dict::Entry& entry : message.entries()) {
    if (!entry.value.is_none()) given.Set(entry.key, entry.value);
  }
  const Value* reasoning = nullptr;
  for (const std::string_view name : kReasoning) {
    if (reasoning == nullptr) reasoning = given.Find(name);
  }
  if (reasoning == nullptr) return given;
  const Value text = *reasoning;
  Dict result;
  result.Set(Text("thinking"), text);
  for (const Dict::Entry& entry : given.entries()) result.Set(entry.key, entry.value);
  result.Set(Text("reasoning_content"), text);
  return result;
}

Value Marked(const Value& text) {
  Text marked = text.text();
  marked.Append(kMark);
  return Value::MakeText(std::move(marked));
}

// Puts the mark behind the content of the message, or behind the last text of a content that is a
// list. Sets *final_text to that text without the mark.
absl::Status Mark(Dict* message, std::string* final_text) {
  const Value* content = message->Find("content");
  if (content != nullptr && content->is_text()) {
    *final_text = content->text().bytes();
    message->Set(Text("content"), Marked(*content));
    return absl::OkStatus();
  }
  if (content == nullptr || !content->is_list()) {
    return absl::InvalidArgumentError(
        "continue_final_message: the last message has no content to continue");
  }
  std::vector<Value> blocks = content->list().items;
  for (size_t i = blocks.size(); i-- > 0;) {
    const Value* text = blocks[i].is_dict() ? blocks[i].dict().Find("text") : nullptr;
    if (text == nullptr || !text->is_text()) continue;
    *final_text = text->text().bytes();
    Dict block = blocks[i].dict();
    block.Set(Text("text"), Marked(*text));
    blocks[i] = Value::MakeDict(std::move(block));
    message->Set(Text("content"), Value::MakeList(std::move(blocks)));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "continue_final_message: the last message has no text to continue");
}

// Returns the text before the mark.
absl::StatusOr<Text> CutAtMark(const Text& text, std::string_view final_text) {
  const std::string& bytes = text.bytes();
  const size_t at = bytes.rfind(Stripped(kMark));
  if (at == std::string::npos || bytes.find(Stripped(final_text)) == std::string::npos) {
    return absl::InvalidArgumentError(
        "continue_final_message: the template leaves out or changes the last message");
  }
  const std::string_view before = std::string_view{bytes}.substr(0, at);
  const bool keeps_space = std::string_view{bytes}.substr(at).starts_with(kMark);
  return text.Part(0, keeps_space ? at : StripEnd(before, 0, nullptr));
}

absl::Status CheckDicts(const Value& list, std::string_view field) {
  if (list.is_none()) return absl::OkStatus();
  bool is_good = list.is_list();
  for (size_t i = 0; is_good && i < list.list().items.size(); ++i) {
    is_good = list.list().items[i].is_dict();
  }
  if (is_good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), ": expected an array of objects"));
}

}  // namespace

absl::StatusOr<Text> ApplyTemplate(const ChatTemplate& chat_template, const Dict& special_tokens,
                                   const Conversation& conversation, const RenderOptions& options) {
  if (conversation.messages.empty()) {
    return absl::InvalidArgumentError("a conversation has one message at least");
  }
  for (const auto& [list, field] :
       {std::pair(conversation.tools, "tools"), std::pair(conversation.documents, "documents")}) {
    if (absl::Status status = CheckDicts(list, field); !status.ok()) return status;
  }
  const bool continues = conversation.continue_final_message;
  if (continues && conversation.add_generation_prompt) {
    return absl::InvalidArgumentError(
        "continue_final_message: not together with add_generation_prompt");
  }
  std::string final_text;
  std::vector<Value> messages;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Value& message = conversation.messages[i];
    if (!message.is_dict()) {
      return absl::InvalidArgumentError(absl::StrCat("messages[", i, "]: expected an object"));
    }
    const bool is_marked = continues && i + 1 == conversation.messages.size();
    if (!is_marked && IsRight(message.dict())) {
      messages.push_back(message);
      continue;
    }
    Dict dict = PutRight(message.dict());
    if (is_marked) {
      if (absl::Status status = Mark(&dict, &final_text); !status.ok()) return status;
    }
    messages.push_back(Value::MakeDict(std::move(dict)));
  }
  Dict variables = special_tokens;
  for (const Dict::Entry& entry : conversation.arguments.entries()) {
    variables.Set(entry.key, entry.value);
  }
  variables.Set(Text("messages"), Value::MakeList(std::move(messages)));
  variables.Set(Text("tools"), conversation.tools);
  variables.Set(Text("documents"), conversation.documents);
  variables.Set(Text("add_generation_prompt"), Value::MakeBool(conversation.add_generation_prompt));
  absl::StatusOr<Text> text = chat_template.Render(variables, options);
  if (!text.ok() || !continues) return text;
  return CutAtMark(*text, final_text);
}

}  // namespace longstream::chat
