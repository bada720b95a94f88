// Each stop string has a Knuth-Morris-Pratt automaton. All automata advance byte by byte together.
#include "service/tokenizer/stream/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

std::vector<uint32_t> Borders(std::string_view text) {
  std::vector<uint32_t> border(text.size(), 0);
  uint32_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    if (text[i] == text[length]) ++length;
    border[i] = length;
  }
  return border;
}

}  // namespace

absl::StatusOr<StopMatcher> StopMatcher::Create(const std::vector<std::string>& stop_strings) {
  StopMatcher matcher;
  for (size_t i = 0; i < stop_strings.size(); ++i) {
    const std::string& text = stop_strings[i];
    if (text.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("stop string ", i, " is empty"));
    }
    const size_t valid = ValidUtf8Prefix(text);
    if (valid != text.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stop string ", i, " is not UTF-8 at byte ", valid));
    }
    matcher.patterns_.push_back({text, Borders(text)});
  }
  return matcher;
}

std::optional<size_t> StopMatcher::Push(std::string_view text, std::string* out) {
  if (patterns_.empty()) {
    out->append(text);
    return std::nullopt;
  }
  const size_t held_before = held_.size();
  held_ += text;
  for (size_t i = held_before; i < held_.size(); ++i) {
    std::optional<size_t> found;
    for (size_t p = 0; p < patterns_.size(); ++p) {
      Pattern& pattern = patterns_[p];
      while (pattern.matched > 0 && held_[i] != pattern.text[pattern.matched]) {
        pattern.matched = pattern.border[pattern.matched - 1];
      }
      if (held_[i] == pattern.text[pattern.matched]) ++pattern.matched;
      const bool complete = pattern.matched == pattern.text.size();
      if (complete && (!found || pattern.matched > patterns_[*found].matched)) found = p;
    }
    if (found) {
      out->append(held_, 0, i + 1 - patterns_[*found].matched);
      held_.clear();
      return found;
    }
  }
  size_t undecided = 0;
  for (const Pattern& pattern : patterns_) undecided = std::max(undecided, pattern.matched);
  const size_t decided = held_.size() - undecided;
  out->append(held_, 0, decided);
  held_.erase(0, decided);
  return std::nullopt;
}

void StopMatcher::Flush(std::string* out) {
  out->append(held_);
  held_.clear();
  for (Pattern& pattern : patterns_) pattern.matched = 0;
}

}  // namespace longstream
