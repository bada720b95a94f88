// Converts texts, token ids and messages to prompts.
#include "service/server/turn_input.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/chat/thoughts.h"
#include "service/engine/turn/prompt_check.h"
#include "service/server/messages_check.h"
#include "service/server/request_check.h"
#include "service/wire/wire_decoder.h"

namespace longstream {

size_t TextBytes(const v1::Input& input) {
  return input.has_messages() ? std::numeric_limits<size_t>::max() : input.text().size();
}

absl::Status CheckTextBytes(const std::string& text, const ServedModel& model) {
  if (text.size() <= model.max_text_bytes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input.text: ", text.size(), " bytes exceed the model's context of ",
                   model.backend().info().context_limit, " tokens, which hold at most ",
                   model.max_text_bytes()));
}

TurnInput::TurnInput(const ServedModel& model, const SessionState& history, bool parse_special)
    : model_(model), parse_special_(parse_special), position_(history.tokens.size()) {
  if (!history.tokens.empty()) last_token_ = history.tokens.back();
}

absl::StatusOr<std::vector<int32_t>> TurnInput::Read(v1::Input* input, RequestCharge* charge) {
  std::vector<int32_t> tokens;
  if (input->has_text()) {
    if (absl::Status status = CheckTextBytes(input->text(), model_); !status.ok()) return status;
    absl::StatusOr<std::vector<int32_t>> encoded = model_.tokenizer().EncodeAfter(
        last_token_, input->text(), EncodeOptions{.parse_special = parse_special_});
    if (!encoded.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("input.text: ", encoded.status().message()));
    }
    tokens = *std::move(encoded);
  } else if (input->has_messages()) {
    absl::StatusOr<chat::Addition> addition =
        AddMessages(input->mutable_messages(), parse_special_, /*generates=*/false, model_,
                    chat::SessionText{}, charge);
    if (!addition.ok()) return addition.status();
    tokens = std::move(addition->tokens);
  } else if (input->has_tokens()) {
    const auto& ids = input->tokens().ids();
    const auto count = static_cast<size_t>(ids.size());
    absl::Status room = CheckRoom(position_, count, model_.backend().info().context_limit);
    if (room.ok()) room = charge->Add(count * sizeof(int32_t));
    if (!room.ok()) return room;
    tokens.assign(ids.begin(), ids.end());
    for (size_t i = 0; i < tokens.size(); ++i) {
      absl::Status status = CheckTokenId("input.tokens.ids", static_cast<int64_t>(i), tokens[i],
                                         model_.backend().info().vocabulary_size);
      if (!status.ok()) return status;
    }
  }
  if (absl::Status status = Add(tokens); !status.ok()) return status;
  return tokens;
}

absl::Status TurnInput::ReadMessages(v1::Messages* messages, const SessionState& history,
                                     HostMemory* host_memory, RequestCharge* charge,
                                     TurnRequest* turn, bool logs, std::optional<std::tm> now) {
  if (logs) {
    auto logged = std::make_shared<LoggedMessages>();
    absl::Status room = charge->Add(messages->ByteSizeLong());
    if (!room.ok()) return room;
    logged->messages = messages->SerializeAsString();
    logged->parse_special = parse_special_;
    turn->logged_messages = std::move(logged);
  }
  absl::StatusOr<chat::Addition> addition = AddMessages(
      messages, parse_special_, turn->kind == TurnKind::kGenerate, model_,
      {history.tokens, history.conversation, model_.defaults().end_token_ids, host_memory, now},
      charge);
  if (!addition.ok()) return addition.status();
  position_ = addition->kept_tokens;
  if (absl::Status status = Add(addition->tokens); !status.ok()) return status;
  turn->kept_tokens = addition->kept_tokens;
  turn->prompt = std::move(addition->tokens);
  turn->in_thoughts = chat::EndsInThoughts(*addition->history);
  turn->conversation = std::move(addition->history);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const chat::History>> RenderLoggedMessages(
    const LoggedMessages& messages, const SessionState& before, const ServedModel& model,
    HostMemory* host_memory) {
  RequestMemory memory(std::numeric_limits<uint64_t>::max(), nullptr);
  // The request had further bytes, which counted for its limit.
  constexpr uint64_t kOtherFields = 4096;
  RequestCharge charge(&memory, messages.messages.size() + kOtherFields);
  v1::Messages request;
  if (absl::Status status = DecodeMessage(messages.messages, &charge, &request); !status.ok()) {
    return absl::DataLossError(
        absl::StrCat("store: the messages of a turn are not as written: ", status.message()));
  }
  request.set_require_unchanged(false);
  absl::StatusOr<chat::Addition> addition =
      AddMessages(&request, messages.parse_special, messages.generates, model,
                  {before.tokens, before.conversation, model.defaults().end_token_ids, host_memory,
                   messages.now},
                  &charge);
  if (!addition.ok()) return addition.status();
  return std::move(addition->history);
}

absl::Status TurnInput::Add(const std::vector<int32_t>& tokens) {
  absl::Status status = CheckRoom(position_, tokens.size(), model_.backend().info().context_limit);
  if (!status.ok()) return status;
  position_ += tokens.size();
  if (!tokens.empty()) last_token_ = tokens.back();
  return absl::OkStatus();
}

}  // namespace longstream
