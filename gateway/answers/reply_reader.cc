#include "gateway/answers/reply_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/random_id.h"
#include "gateway/answers/marks.h"

namespace longstream::gateway {
namespace {

constexpr std::string_view kCallBegin = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
// A block that does not end within this many bytes is no call.
constexpr size_t kMostBytes = 1 << 20;

// Absent: the JSON is no call. `has_arguments`: a call must have some.
std::optional<ToolCall> CallOf(const Json& json, bool has_arguments) {
  if (!json.is_object()) return std::nullopt;
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string() || name->get<std::string>().empty()) return {};
  ToolCall call;
  call.id = "call_" + client::RandomId();
  call.name = name->get<std::string>();
  call.arguments = Json::object();
  for (const char* const key : {"arguments", "parameters"}) {
    const auto found = json.find(key);
    if (found == json.end()) continue;
    if (!found->is_object()) return std::nullopt;
    call.arguments = *found;
    return call;
  }
  return has_arguments ? std::nullopt : std::optional<ToolCall>(std::move(call));
}

// Absent: the text is no call.
std::optional<ToolCall> ParseCall(std::string_view text) {
  try {
    return CallOf(ParseJson(text), /*has_arguments=*/false);
  } catch (const BadRequest&) {
    return std::nullopt;
  }
}

// The calls of a reply that is bare JSON. Empty: it is something else. An answer in JSON may have a
// member "name" too, so these calls must have arguments.
std::vector<ToolCall> ParseBareCalls(const std::string& text) {
  std::vector<ToolCall> calls;
  try {
    // An array becomes the member of an object, because ParseJson reads objects.
    const Json json = ParseJson("{\"calls\": " + text + "}").at("calls");
    for (const Json& one : json.is_array() ? json : Json::array({json})) {
      std::optional<ToolCall> call = CallOf(one, /*has_arguments=*/true);
      if (!call.has_value()) return {};
      calls.push_back(*std::move(call));
    }
  } catch (const BadRequest&) {
    return {};
  }
  return calls;
}

// Whether a beginning of JSON ends within a string.
bool EndsInString(std::string_view json) {
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') in_string = !in_string;
    if (in_string && json[i] == '\\') ++i;
  }
  return in_string;
}

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

void ReplyReader::TakeText(size_t size, Reply* piece) {
  piece->text.append(held_, 0, size);
  held_.erase(0, size);
}

bool ReplyReader::TakeBlock(bool at_end, Reply* piece) {
  // A text in the arguments may have the end mark, too: then the call ends at a later one.
  size_t first_end = std::string::npos;
  for (size_t end = held_.find(kCallEnd, kCallBegin.size()); end != std::string::npos;
       end = held_.find(kCallEnd, end + kCallEnd.size())) {
    if (first_end == std::string::npos) first_end = end;
    std::optional<ToolCall> call =
        ParseCall(std::string_view(held_).substr(kCallBegin.size(), end - kCallBegin.size()));
    if (!call.has_value()) continue;
    piece->calls.push_back(*std::move(call));
    held_.erase(0, end + kCallEnd.size());
    return true;
  }
  const bool is_complete =
      first_end != std::string::npos && !EndsInString(std::string_view(held_).substr(
                                            kCallBegin.size(), first_end - kCallBegin.size()));
  if (is_complete) {
    TakeText(first_end + kCallEnd.size(), piece);
    return true;
  }
  if (!at_end && held_.size() < kMostBytes) return false;
  TakeText(held_.size(), piece);
  return true;
}

bool ReplyReader::MayBeBare() const {
  const auto first = std::find_if_not(held_.begin(), held_.end(), IsSpace);
  if (first == held_.end()) return true;
  return (*first == '{' || *first == '[') && held_.size() < kMostBytes;
}

void ReplyReader::ReadBlocks(Reply* piece) {
  while (!held_.empty()) {
    // Templates write line breaks around calls, which are no part of the text.
    size_t begin = held_.find(kCallBegin);
    const bool found = begin != std::string::npos;
    if (!found) begin = held_.size() - BeginningAtEnd(held_, kCallBegin);
    size_t text_end = begin;
    while (text_end > 0 && IsSpace(held_[text_end - 1])) --text_end;
    TakeText(text_end, piece);
    if (!found) return;
    held_.erase(0, begin - text_end);
    if (!TakeBlock(/*at_end=*/false, piece)) return;
  }
}

void ReplyReader::AddText(std::string_view text, Reply* piece) {
  held_.append(text);
  is_bare_ = is_bare_ && with_calls_ && MayBeBare();
  if (!with_calls_) {
    TakeText(held_.size(), piece);
  } else if (!is_bare_) {
    ReadBlocks(piece);
  }
}

Reply ReplyReader::Add(std::string_view text) {
  Reply piece;
  ThoughtReader::Piece split = thoughts_.Add(text);
  piece.thoughts = std::move(split.thoughts);
  AddText(split.text, &piece);
  Remember(piece);
  return piece;
}

Reply ReplyReader::End() {
  Reply piece;
  ThoughtReader::Piece split = thoughts_.End();
  piece.thoughts = std::move(split.thoughts);
  AddText(split.text, &piece);
  if (is_bare_ && with_calls_ && !held_.empty()) {
    piece.calls = ParseBareCalls(held_);
    if (piece.calls.empty()) {
      ReadBlocks(&piece);
    } else {
      held_.clear();
    }
  }
  if (held_.starts_with(kCallBegin)) TakeBlock(/*at_end=*/true, &piece);
  const bool only_spaces = std::all_of(held_.begin(), held_.end(), IsSpace);
  if (only_spaces && !(reply_.calls.empty() && piece.calls.empty())) held_.clear();
  TakeText(held_.size(), &piece);
  Remember(piece);
  return piece;
}

void ReplyReader::Remember(const Reply& piece) {
  reply_.thoughts += piece.thoughts;
  reply_.text += piece.text;
  reply_.calls.insert(reply_.calls.end(), piece.calls.begin(), piece.calls.end());
}

}  // namespace longstream::gateway
