// Renders the old conversation, the model's reply and the new messages as one text.
#include "service/chat/history.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/chat/history_bytes.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

// Returns the text of the tokens, with invalid UTF-8 replaced. The bytes of special tokens do not
// count as foreign, because the model itself wrote those tokens.
Text TextOf(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string bytes;
  for (const int32_t token : tokens) bytes += tokenizer.TokenBytes(token);
  if (ValidUtf8Prefix(bytes) != bytes.size()) {
    return Text(tokenizer.Decode(tokens, DecodeOptions{.continues = true}), /*is_foreign=*/true);
  }
  Text text;
  std::string run;
  const auto finish_run = [&] { text.Append(Text(std::exchange(run, ""), /*is_foreign=*/true)); };
  for (const int32_t token : tokens) {
    if (!tokenizer.IsSpecial(token)) {
      run += tokenizer.TokenBytes(token);
      continue;
    }
    finish_run();
    text.Append(tokenizer.TokenBytes(token));
  }
  finish_run();
  return text;
}

const Value* RoleOf(const Value& message) {
  return message.is_dict() ? message.dict().Find("role") : nullptr;
}

bool IsReply(const Value& message) {
  const Value* role = RoleOf(message);
  return role != nullptr && role->is_text() && role->text().bytes() == "assistant";
}

// Adds the reply to the conversation: as a new message, or as the rest of the last message if the
// model was asked to continue it.
absl::Status AddReply(Text reply, Conversation* conversation) {
  Dict message;
  if (conversation->continue_final_message) {
    message = conversation->messages.back().dict();
    const Value* begun = message.Find("content");
    if (begun == nullptr || !begun->is_text()) {
      return absl::UnimplementedError(
          "the last message, which the model has continued, is of several parts; send "
          "the whole conversation");
    }
    Text whole = begun->text();
    whole.Append(reply);
    reply = std::move(whole);
    conversation->messages.pop_back();
  }
  message.Set(Text("role"), Value::MakeText("assistant"));
  message.Set(Text("content"), Value::MakeText(std::move(reply)));
  conversation->messages.push_back(Value::MakeDict(std::move(message)));
  return absl::OkStatus();
}

// Returns the whole conversation: the messages of the session, the model's reply and the messages
// of the turn.
absl::StatusOr<Conversation> Joined(const Tokenizer& tokenizer, const SessionText& session,
                                    Conversation added) {
  if (session.history == nullptr) {
    if (session.tokens.empty()) return added;
    return absl::FailedPreconditionError(absl::StrCat(
        "the session's ", session.tokens.size(),
        " tokens are no conversation to add to; open another session, or send the whole "
        "conversation"));
  }
  const History& history = *session.history;
  Conversation joined = history.conversation;
  std::span<const int32_t> reply = session.tokens.subspan(history.position);
  // A caller that separates text, thoughts and calls of functions sends the reply itself, as the
  // first message.
  const bool brings_reply = !added.messages.empty() && IsReply(added.messages[0]);
  if (!reply.empty() && !(brings_reply && !joined.continue_final_message)) {
    const auto is_end = [&](int32_t token) {
      return std::ranges::find(session.end_ids, token) != session.end_ids.end();
    };
    while (!reply.empty() && is_end(reply.back())) reply = reply.first(reply.size() - 1);
    absl::Status status = AddReply(TextOf(tokenizer, reply), &joined);
    if (!status.ok()) return status;
  }
  for (Value& message : added.messages) joined.messages.push_back(std::move(message));
  if (!added.tools.is_none()) joined.tools = added.tools;
  if (!added.documents.is_none()) joined.documents = added.documents;
  for (const Dict::Entry& entry : added.arguments.entries()) {
    joined.arguments.Set(entry.key, entry.value);
  }
  joined.add_generation_prompt = added.add_generation_prompt;
  joined.continue_final_message = added.continue_final_message;
  return joined;
}

// Returns the tokens of the text that starts at byte `begin`.
absl::StatusOr<std::vector<int32_t>> Encode(const Tokenizer& tokenizer, const Text& text,
                                            size_t begin, bool parse_special, bool continues) {
  const Text part = begin == 0 ? text : text.Part(begin, text.size());
  EncodeOptions options;
  options.parse_special = true;
  if (!parse_special) options.foreign = part.foreign();
  options.continues = continues;
  return tokenizer.Encode(part.bytes(), options);
}

}  // namespace

absl::StatusOr<Addition> AddMessages(const ChatTemplates& templates, const Tokenizer& tokenizer,
                                     const SessionText& session, Messages messages) {
  auto history = std::make_shared<History>();
  if (messages.whole) {
    history->conversation = std::move(messages.conversation);
  } else {
    const bool has_tools = !messages.conversation.tools.is_none();
    absl::StatusOr<Conversation> joined =
        Joined(tokenizer, session, std::move(messages.conversation));
    if (!joined.ok()) {
      // Without a template no session will do, so this error comes before those of the session.
      const absl::Status chosen = templates.Choose(has_tools).status();
      return chosen.ok() ? joined.status() : chosen;
    }
    history->conversation = *std::move(joined);
  }
  const Conversation& conversation = history->conversation;
  const absl::StatusOr<const ChatTemplate*> chat_template =
      templates.Choose(!conversation.tools.is_none());
  if (!chat_template.ok()) return chat_template.status();
  RenderOptions options;
  options.now = history->now =
      session.history != nullptr ? session.history->now : session.now.value_or(LocalTime());
  absl::StatusOr<Text> text =
      ApplyTemplate(**chat_template, templates.special_tokens, conversation, options);
  if (!text.ok()) return text.status();
  history->text = *std::move(text);
  absl::Status counted = ChargeHistory(session.history.get(), session.host_memory, history.get());
  if (!counted.ok()) return counted;
  const std::string& bytes = history->text.bytes();

  Addition addition;
  std::string spelled;  // the text of the session's tokens
  if (session.history != nullptr) {
    spelled = session.history->text.bytes();
    for (const int32_t token : session.tokens.subspan(session.history->position)) {
      spelled += tokenizer.TokenBytes(token);
    }
  }
  // A reply may have ended in the middle of a character.
  const bool is_text = ValidUtf8Prefix(spelled) == spelled.size();
  if (!spelled.empty() && is_text && bytes.starts_with(spelled)) {
    addition.kept_tokens = session.tokens.size();
    absl::StatusOr<std::vector<int32_t>> rest =
        Encode(tokenizer, history->text, spelled.size(), messages.parse_special,
               tokenizer.ContinuesAfter(session.tokens.back()));
    if (!rest.ok()) return rest.status();
    addition.tokens = *std::move(rest);
  } else {
    absl::StatusOr<std::vector<int32_t>> all =
        Encode(tokenizer, history->text, 0, messages.parse_special, /*continues=*/false);
    if (!all.ok()) return all.status();
    const auto differ = std::ranges::mismatch(session.tokens, *all);
    addition.kept_tokens = static_cast<uint64_t>(differ.in1 - session.tokens.begin());
    if (messages.require_unchanged && addition.kept_tokens < session.tokens.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("require_unchanged: the template changes the text of earlier turns from "
                       "position ",
                       addition.kept_tokens, " of ", session.tokens.size(), " on"));
    }
    addition.tokens.assign(differ.in2, all->end());
  }
  history->position = addition.kept_tokens + addition.tokens.size();
  addition.history = std::move(history);
  return addition;
}

}  // namespace longstream::chat
