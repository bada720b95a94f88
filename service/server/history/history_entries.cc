// Joins the messages of turns as the chat template's history does, and cuts pages.
#include "service/server/history/history_entries.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/text_decoder.h"

namespace longstream {
namespace {

// Makes the entries, turn by turn.
class Entries {
 public:
  explicit Entries(const ServedModel& model) : model_(model), tokenizer_(model.tokenizer()) {}

  absl::Status Add(const TurnText& turn) {
    turn_id_ = turn.id.ToString();
    if (!turn.prompt.empty()) tail_.clear();
    if (turn.messages.has_value()) {
      v1::Messages messages;
      if (!messages.ParseFromString(turn.messages->messages)) {
        return absl::DataLossError(absl::StrCat("store: the messages of turn ", turn_id_,
                                                " are not as they were written"));
      }
      AddMessages(&messages);
      NoteText(turn.prompt);
    } else {
      AddText(v1::HISTORY_KIND_PROMPT, WithoutPrefix(turn.prompt), {}, turn.prompt_end);
      tail_.clear();  // of a prompt's end
    }
    AddText(v1::HISTORY_KIND_ANSWER, WithoutEnd(turn.answer), {.skip_special = true},
            turn.answer_end);
    return absl::OkStatus();
  }

  std::vector<v1::HistoryEntry> Take() { return std::move(entries_); }

 private:
  // Whether the entry is the message of a client that sends its whole conversation.
  static bool IsSame(const v1::HistoryEntry& entry, const v1::Message& message) {
    if (entry.kind() == v1::HISTORY_KIND_MESSAGE) {
      const v1::Message& other = entry.message();
      return other.role() == message.role() && other.has_content() == message.has_content() &&
             other.content() == message.content() && other.json() == message.json();
    }
    return entry.kind() == v1::HISTORY_KIND_ANSWER && message.role() == "assistant" &&
           message.content() == entry.text() && message.json().empty();
  }

  // As chat::AddMessages does it with the conversation that the model reads.
  void AddMessages(v1::Messages* messages) {
    int first = 0;  // message that is new
    if (messages->whole_conversation()) {
      while (first < messages->messages_size() && static_cast<size_t>(first) < entries_.size() &&
             IsSame(entries_[static_cast<size_t>(first)], messages->messages(first))) {
        ++first;
      }
      entries_.resize(static_cast<size_t>(first));
    } else if (messages->messages_size() > 0 && messages->messages(0).role() == "assistant" &&
               !continues_message_) {
      // The client sends the answer itself, in place of all that is behind the last message.
      while (!entries_.empty() && entries_.back().kind() != v1::HISTORY_KIND_MESSAGE) {
        entries_.pop_back();
      }
    }
    for (int i = first; i < messages->messages_size(); ++i) {
      v1::HistoryEntry& entry = NewEntry(v1::HISTORY_KIND_MESSAGE);
      *entry.mutable_message() = std::move(*messages->mutable_messages(i));
    }
    continues_message_ = messages->continue_final_message();
  }

  void AddText(v1::HistoryKind kind, std::span<const int32_t> tokens, DecodeOptions options,
               uint64_t position) {
    options.continues = has_text_;
    NoteText(tokens);
    TextDecoder decoder(tokenizer_, options, tail_);
    std::string text;
    for (const int32_t token : tokens) decoder.Push(token, &text);
    tail_ = std::string(decoder.pending());
    if (text.empty()) return;
    v1::HistoryEntry& entry = NewEntry(kind);
    entry.set_text(std::move(text));
    entry.set_position(position);
  }

  void NoteText(std::span<const int32_t> tokens) {
    has_text_ = has_text_ || std::ranges::any_of(tokens, [this](int32_t token) {
                  return !tokenizer_.IsSpecial(token);
                });
  }

  // The tokens that the tokenizer puts before every sequence are no text of the client.
  std::span<const int32_t> WithoutPrefix(std::span<const int32_t> prompt) const {
    const std::span<const int32_t> prefix = tokenizer_.sequence_prefix();
    const bool begins = entries_.empty() && prompt.size() >= prefix.size() &&
                        std::ranges::equal(prefix, prompt.first(prefix.size()));
    return begins ? prompt.subspan(prefix.size()) : prompt;
  }

  std::span<const int32_t> WithoutEnd(std::span<const int32_t> answer) const {
    const std::vector<int32_t>& ends = model_.defaults().end_token_ids;
    while (!answer.empty() && std::ranges::find(ends, answer.back()) != ends.end()) {
      answer = answer.first(answer.size() - 1);
    }
    return answer;
  }

  v1::HistoryEntry& NewEntry(v1::HistoryKind kind) {
    v1::HistoryEntry& entry = entries_.emplace_back();
    entry.set_turn_id(turn_id_);
    entry.set_kind(kind);
    return entry;
  }

  const ServedModel& model_;
  const Tokenizer& tokenizer_;
  std::string turn_id_;
  bool has_text_ = false;  // some token before is no special token
  // The answer behind the last messages continues the last one of them.
  bool continues_message_ = false;
  // An incomplete character at the end of the last answer, which the next turn may complete.
  std::string tail_;
  std::vector<v1::HistoryEntry> entries_;
};

// The longest beginning of a text that ends between characters, with at most `most` bytes, but at
// least one character.
std::string_view Beginning(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  const size_t valid = ValidUtf8Prefix(text.substr(0, most));
  if (valid > 0) return text.substr(0, valid);
  size_t end = 0;
  NextCodePoint(text, &end);
  return text.substr(0, end);
}

// An entry's other fields, and its place in the answer.
constexpr size_t kEntryBytes = 64;

size_t BytesOf(const v1::Message& message) {
  return kEntryBytes + message.role().size() + message.content().size() + message.json().size();
}

// Whether a text can be cut before this byte.
bool IsBorder(const std::string& text, size_t byte) {
  return byte < text.size() && (static_cast<unsigned char>(text[byte]) & 0xC0) != 0x80;
}

absl::Status NoPlace() {
  return absl::InvalidArgumentError(
      "page_token: expected the next_page_token of an earlier response for this session");
}

}  // namespace

absl::StatusOr<std::vector<v1::HistoryEntry>> EntriesOf(const std::vector<TurnText>& turns,
                                                        const ServedModel& model) {
  Entries entries(model);
  for (const TurnText& turn : turns) {
    if (absl::Status status = entries.Add(turn); !status.ok()) return status;
  }
  return entries.Take();
}

absl::StatusOr<HistoryPlace> HistoryPlace::Parse(const std::string& token) {
  HistoryPlace place;
  if (token.empty()) return place;
  const std::pair<std::string, std::string> parts = absl::StrSplit(token, absl::MaxSplits('.', 1));
  uint64_t entry = 0, byte = 0;
  if (!absl::SimpleAtoi(parts.first, &entry) || !absl::SimpleAtoi(parts.second, &byte)) {
    return NoPlace();
  }
  return HistoryPlace{entry, byte};
}

std::string HistoryPlace::ToString() const { return absl::StrCat(entry, ".", byte); }

absl::StatusOr<v1::ReadHistoryResponse> PageOf(const std::vector<v1::HistoryEntry>& entries,
                                               const HistoryPlace& begin, size_t most_bytes) {
  HistoryPlace place = begin;
  const bool is_first = place.entry == 0 && place.byte == 0;
  if (!is_first && (place.entry >= entries.size() ||
                    (place.byte > 0 && !IsBorder(entries[place.entry].text(), place.byte)))) {
    return NoPlace();
  }
  v1::ReadHistoryResponse page;
  size_t left = most_bytes;
  for (; place.entry < entries.size() && left > 0; ++place.entry, place.byte = 0) {
    const v1::HistoryEntry& entry = entries[place.entry];
    if (entry.kind() == v1::HISTORY_KIND_MESSAGE) {
      const size_t bytes = BytesOf(entry.message());
      if (bytes > left && page.entries_size() > 0) break;
      *page.add_entries() = entry;
      left -= std::min(bytes, left);
      continue;
    }
    const std::string_view rest = std::string_view(entry.text()).substr(place.byte);
    const std::string_view part = Beginning(rest, left);
    v1::HistoryEntry& added = *page.add_entries();
    added.set_turn_id(entry.turn_id());
    added.set_kind(entry.kind());
    added.set_text(std::string(part));
    added.set_position(entry.position());
    if (part.size() < rest.size()) {
      added.set_continued(true);
      place.byte += part.size();
      break;
    }
    left -= std::min(part.size() + kEntryBytes, left);
  }
  if (place.entry < entries.size()) page.set_next_page_token(place.ToString());
  return page;
}

}  // namespace longstream
