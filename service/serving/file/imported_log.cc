// Checks each value that a turn of this server would have by construction.
#include "service/serving/file/imported_log.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/serving/file/decode_from_file.h"
#include "service/tokenizer/text/utf8.h"
#include "turn_log.pb.h"

namespace longstream {
namespace {

absl::Status Wrong(uint64_t position, const char* field, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("file: turn that ends at position ", position,
                                                 ": ", field, ": expected ", expected));
}

bool IsUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

// Whether the bytes are the beginning of one character, or empty.
bool IsIncompleteCharacter(std::string_view bytes) {
  Utf8Stream stream;
  std::string text;
  stream.Push(bytes, &text);
  return text.empty() && stream.pending() == bytes;
}

bool IsToken(int32_t token, const TokenBounds& bounds) {
  return token >= 0 && static_cast<uint32_t>(token) < bounds.vocabulary_size;
}

absl::Status CheckAnswer(const Answer& answer, uint64_t position, const TokenBounds& bounds) {
  const auto& lead = answer.lead();
  if (lead.has_value() && !IsUtf8(lead->text)) return Wrong(position, "lead", "UTF-8");
  for (size_t i = 0; i < answer.tokens().size(); ++i) {
    const DeltaEvent delta = answer.DeltaOf(i);
    if (!IsToken(delta.tokens[0], bounds)) {
      return Wrong(position, "answer_tokens", "ids of the vocabulary");
    }
    if (!IsUtf8(delta.text)) return Wrong(position, "text", "UTF-8 of whole characters");
    for (const TokenLogProb& log_prob : delta.log_probs) {
      for (const ls_top_token& top : log_prob.top) {
        if (!IsToken(top.token, bounds)) {
          return Wrong(position, "log_probs.top_tokens", "ids of the vocabulary");
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckImportedTurn(const LoggedTurn& turn, const TokenBounds& bounds) {
  const uint64_t position = turn.row.position;
  const LoggedResult& result = turn.result;
  if (turn.start.kind != TurnKind::kGenerate && turn.start.kind != TurnKind::kAppend) {
    return Wrong(position, "kind", "Generate or Append");
  }
  if (position > bounds.context_limit) {
    return Wrong(position, "position",
                 absl::StrCat("at most the context limit ", bounds.context_limit));
  }
  for (const int32_t token : result.tokens) {
    if (!IsToken(token, bounds)) {
      return Wrong(position, "tokens",
                   absl::StrCat("0 ... ", bounds.vocabulary_size - 1, ", found ", token));
    }
  }
  if (result.end.reason < FinishReason::kNone || result.end.reason > FinishReason::kFormat) {
    return Wrong(position, "reason", "a reason of this version");
  }
  if (!IsIncompleteCharacter(result.tail.bytes)) {
    return Wrong(position, "tail", "the beginning of a character");
  }
  if (!IsIncompleteCharacter(result.end.incomplete_character)) {
    return Wrong(position, "incomplete_character", "the beginning of a character");
  }
  if (!IsUtf8(result.end.usage.recompute_reason)) {
    return Wrong(position, "recompute_reason", "UTF-8");
  }
  if (result.answer == nullptr) return absl::OkStatus();
  return CheckAnswer(*result.answer, position, bounds);
}

absl::Status CheckImportedState(const SessionState& state, const TokenBounds& bounds) {
  const uint64_t position = state.tokens.size();
  const uint64_t readable = position > 0 ? position - 1 : 0;
  if (position > bounds.context_limit) {
    return Wrong(position, "position",
                 absl::StrCat("at most the context limit ", bounds.context_limit));
  }
  if (state.feed.end() > readable) {
    return Wrong(position, "feed", absl::StrCat("at most ", readable, " tokens that were read"));
  }
  return absl::OkStatus();
}

absl::Status ImportedLog::SetSession(std::string_view record) {
  if (has_session_) return absl::InvalidArgumentError("file: there are two records of a session");
  if (absl::Status status = charge_.Add(BlockBytes(record.size())); !status.ok()) return status;
  absl::StatusOr<FileSession> session = DecodeFileSession(record);
  if (!session.ok()) return session.status();
  log::SessionProperties checked;
  if (absl::Status status = DecodeFromFile(session->row.properties, &checked); !status.ok())
    return status;
  absl::StatusOr<LoggedProperties> properties = DecodeProperties(session->row.properties);
  if (!properties.ok() || properties->recompute < Recompute::kExact ||
      properties->recompute > Recompute::kFast ||
      properties->idle_timeout <= absl::ZeroDuration() ||
      properties->ttl.value_or(absl::InfiniteDuration()) <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("file: session.properties: they are not as written");
  }
  session_ = *std::move(session);
  properties_ = *std::move(properties);
  has_session_ = true;
  return absl::OkStatus();
}

absl::Status ImportedLog::AddTurn(std::string_view record) {
  if (!has_session_ || is_complete()) {
    return absl::InvalidArgumentError(
        absl::StrCat("file: more turns than session.turns, ", session_.turns));
  }
  // A row and its bytes.
  if (absl::Status status = charge_.Add(sizeof(store::TurnRow) + BlockBytes(record.size()));
      !status.ok()) {
    return status;
  }
  absl::StatusOr<store::TurnRow> turn = DecodeFileTurn(record);
  if (!turn.ok()) return turn.status();
  log::TurnStart start;
  if (absl::Status status = DecodeFromFile(turn->request, &start); !status.ok()) return status;
  log::TurnResult result;
  if (absl::Status status = DecodeFromFile(turn->result, &result); !status.ok()) return status;
  turn->number = static_cast<store::TurnNumber>(turns_.size() + 1);
  turns_.push_back(*std::move(turn));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ImportedLog::Check(const ServedModel& model,
                                            const RestoreOptions& options) const {
  const ls_model_info& info = model.backend().info();
  const TokenBounds bounds{info.vocabulary_size, info.context_limit};
  std::vector<LoggedTurn> turns;
  uint64_t end = 0;
  for (const store::TurnRow& row : turns_) {
    absl::StatusOr<LoggedTurn> turn = DecodeTurn(row);
    if (!turn.ok()) return absl::InvalidArgumentError(turn.status().message());
    if (absl::Status status = CheckImportedTurn(*turn, bounds); !status.ok()) return status;
    if (turn->start.start_position > end) {
      return Wrong(row.position, "start_position",
                   absl::StrCat("at most ", end, ", the end of the turn before"));
    }
    end = row.position;
    turn->result.answer = nullptr;
    turns.push_back(*std::move(turn));
  }
  for (const LoggedProperties::Cut& cut : properties_.cuts) {
    const auto index = static_cast<uint64_t>(cut.turn) - 1;
    if (index >= turns.size() || cut.position <= turns[index].start.start_position ||
        cut.position >= turns[index].row.position) {
      return absl::InvalidArgumentError("file: session.properties.cuts: expected places in turns");
    }
  }
  const absl::StatusOr<RestoredSession> restored =
      RestoreTurns(options, session_.row, properties_, turns, model);
  if (!restored.ok()) return restored.status();
  absl::Status status = CheckImportedState(restored->state, bounds);
  if (!status.ok()) return status;
  return restored->state.feed.end();
}

}  // namespace longstream
