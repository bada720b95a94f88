// Splits a text by one pattern after another.
#include "service/tokenizer/pre_tokenizer.h"

#include <cstdint>
#include <string>
#include <utility>

namespace longstream {
namespace {

// The pattern of ByteLevel with use_regex, as in GPT-2's encoder.py.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Piece {
  size_t begin;
  size_t end;
  bool is_match;
};

// The matches and what lies between them: without gaps from the beginning of the text to its end.
absl::StatusOr<std::vector<Piece>> FindPieces(const Regex& regex, std::string_view text) {
  std::vector<Piece> pieces;
  size_t end = 0;
  Regex::Match match;
  while (end < text.size()) {
    const absl::StatusOr<bool> found = regex.Find(text, end, &match);
    if (!found.ok()) return found.status();
    if (!*found) break;
    if (end < match.begin) pieces.push_back({end, match.begin, false});
    pieces.push_back({match.begin, match.end, true});
    end = match.end;
  }
  if (end < text.size()) pieces.push_back({end, text.size(), false});
  return pieces;
}

// Whether a piece is joined with the one before it.
bool Joins(SplitBehavior behavior, const Piece& before, const Piece& piece) {
  switch (behavior) {
    case SplitBehavior::kContiguous:
      return before.is_match == piece.is_match;
    case SplitBehavior::kMergedWithPrevious:
      return piece.is_match && !before.is_match;
    case SplitBehavior::kMergedWithNext:
      return before.is_match && !piece.is_match;
    case SplitBehavior::kIsolated:
    case SplitBehavior::kRemoved:
      return false;
  }
  return false;
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const TokenizerSpec& spec) {
  PreTokenizer pre_tokenizer;
  std::vector<SplitRule> rules = spec.splits;
  pre_tokenizer.prefix_space_at_ = spec.add_prefix_space ? rules.size() : SIZE_MAX;
  if (spec.gpt2_split) rules.push_back({std::string(kGpt2Pattern)});
  for (const SplitRule& rule : rules) {
    if (absl::Status status = pre_tokenizer.AddStep(rule); !status.ok()) return status;
  }
  return pre_tokenizer;
}

absl::Status PreTokenizer::AddStep(const SplitRule& rule) {
  absl::StatusOr<Regex> regex =
      rule.literal ? Regex::CompileLiteral(rule.pattern) : Regex::Compile(rule.pattern);
  if (!regex.ok()) return regex.status();
  steps_.push_back({*std::move(regex), rule.behavior, rule.invert});
  return absl::OkStatus();
}

absl::Status PreTokenizer::Split(std::string_view text, WordSink sink) const {
  return RunSteps(text, 0, sink);
}

absl::Status PreTokenizer::RunSteps(std::string_view text, size_t step, WordSink sink) const {
  if (text.empty()) return absl::OkStatus();
  std::string prefixed;
  if (step == prefix_space_at_ && !text.starts_with(' ')) {
    prefixed.reserve(text.size() + 1);
    prefixed += ' ';
    prefixed += text;
    text = prefixed;
  }
  if (step == steps_.size()) {
    sink(text);
    return absl::OkStatus();
  }
  const auto& [regex, behavior, invert] = steps_[step];
  absl::StatusOr<std::vector<Piece>> pieces = FindPieces(regex, text);
  if (!pieces.ok()) return pieces.status();
  for (Piece& piece : *pieces) piece.is_match = piece.is_match != invert;

  for (size_t i = 0; i < pieces->size();) {
    const size_t first = i++;
    while (i < pieces->size() && Joins(behavior, (*pieces)[i - 1], (*pieces)[i])) ++i;
    if (behavior == SplitBehavior::kRemoved && (*pieces)[first].is_match) continue;
    const size_t begin = (*pieces)[first].begin;
    const std::string_view word = text.substr(begin, (*pieces)[i - 1].end - begin);
    if (absl::Status status = RunSteps(word, step + 1, sink); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace longstream
