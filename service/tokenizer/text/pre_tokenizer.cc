// Splits a text by the patterns of the steps, one after the other.
#include "service/tokenizer/text/pre_tokenizer.h"

#include <string>
#include <utility>

namespace longstream {
namespace {

// The pattern of GPT-2's encoder.py, which ByteLevel uses if use_regex is set.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct CutPiece {
  size_t begin;
  size_t end;
  bool is_match;
};

// Divides the text into the matches of the regular expression and the texts between them. The
// pieces cover the whole text.
absl::StatusOr<std::vector<CutPiece>> FindPieces(const Regex& regex, std::string_view text) {
  std::vector<CutPiece> pieces;
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

// Whether a piece is joined with the previous piece.
bool Joins(SplitBehavior behavior, const CutPiece& before, const CutPiece& piece) {
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

// Applies the step's change of the text that comes before its cut. Returns the piece itself or
// *buffer.
std::string_view Rewritten(const PreTokenizerStep& step, TextPlace place, std::string_view piece,
                           std::string* buffer) {
  using Kind = PreTokenizerStep::Kind;
  if (step.kind == Kind::kSplit || step.kind == Kind::kGpt2Split) return piece;
  const bool is_space = step.kind == Kind::kPrefixSpace;
  std::string_view prefix = " ";
  if (!is_space) prefix = step.mark;
  // A space at the beginning will become the mark, so it counts as a prefix.
  const bool has_prefix = piece.starts_with(prefix) || piece.starts_with(' ');
  const bool gives_prefix = PutsPrefix(step.scheme, place) && !has_prefix;
  if (is_space && !gives_prefix) return piece;
  buffer->reserve(piece.size() + prefix.size());
  if (gives_prefix) *buffer += prefix;
  if (is_space) {
    *buffer += piece;
    return *buffer;
  }
  for (const char c : piece) {
    if (c == ' ') {
      *buffer += step.mark;
    } else {
      *buffer += c;
    }
  }
  return *buffer;
}

// Returns the pattern by which the step cuts, if it cuts. If the kind of step decides the behavior
// of the split, sets step->behavior.
std::optional<PatternSpec> CutPattern(PreTokenizerStep* step) {
  switch (step->kind) {
    case PreTokenizerStep::Kind::kSplit:
      return step->pattern;
    case PreTokenizerStep::Kind::kGpt2Split:
      return PatternSpec{kGpt2Pattern, false};
    case PreTokenizerStep::Kind::kMetaspace:
      if (!step->split) return std::nullopt;
      step->behavior = SplitBehavior::kMergedWithNext;
      return PatternSpec{step->mark, true};
    case PreTokenizerStep::Kind::kPrefixSpace:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer pre_tokenizer;
  for (const PreTokenizerStep& spec : steps) {
    Step step{spec, std::nullopt};
    if (const std::optional<PatternSpec> pattern = CutPattern(&step.spec)) {
      absl::StatusOr<Regex> regex =
          pattern->literal ? Regex::CompileLiteral(pattern->text) : Regex::Compile(pattern->text);
      if (!regex.ok()) return regex.status();
      step.regex = *std::move(regex);
    }
    pre_tokenizer.steps_.push_back(std::move(step));
  }
  return pre_tokenizer;
}

absl::Status PreTokenizer::Split(std::string_view text, TextPlace place, WordSink sink) const {
  return RunSteps(text, place, 0, sink);
}

absl::Status PreTokenizer::RunSteps(std::string_view text, TextPlace place, size_t step,
                                    WordSink sink) const {
  if (text.empty()) return absl::OkStatus();
  if (step == steps_.size()) {
    sink(text);
    return absl::OkStatus();
  }
  std::string buffer;
  text = Rewritten(steps_[step].spec, place, text, &buffer);
  if (steps_[step].regex) return Cut(text, place, step, sink);
  return RunSteps(text, place, step + 1, sink);
}

// Cuts a piece by the pattern of the step, and runs the following steps on each part.
absl::Status PreTokenizer::Cut(std::string_view text, TextPlace place, size_t step,
                               WordSink sink) const {
  absl::StatusOr<std::vector<CutPiece>> pieces = FindPieces(*steps_[step].regex, text);
  if (!pieces.ok()) return pieces.status();
  const PreTokenizerStep& spec = steps_[step].spec;
  for (CutPiece& piece : *pieces) piece.is_match = piece.is_match != spec.invert;

  for (size_t i = 0; i < pieces->size();) {
    const size_t first = i++;
    while (i < pieces->size() && Joins(spec.behavior, (*pieces)[i - 1], (*pieces)[i])) ++i;
    if (spec.behavior == SplitBehavior::kRemoved && (*pieces)[first].is_match) continue;
    const size_t begin = (*pieces)[first].begin;
    const std::string_view word = text.substr(begin, (*pieces)[i - 1].end - begin);
    const TextPlace word_place = begin == 0 ? place : TextPlace::kNewPiece;
    absl::Status status = RunSteps(word, word_place, step + 1, sink);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace longstream
