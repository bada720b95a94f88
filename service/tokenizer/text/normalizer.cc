// Runs the steps one after the other, each from one buffer into the next.
#include "service/tokenizer/text/normalizer.h"

#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/tokenizer/text/unicode_form.h"
#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/text/white_space.h"

namespace longstream {
namespace {

// ICU counts bytes in 32 bits. A third of the range is left so that sums of lengths cannot
// overflow.
constexpr size_t kMaxBytes = 0x7FFFFFFF / 3;

constexpr std::string_view kMark = "\u2581";  // SentencePiece's mark for a space

// A grapheme that has more bytes than this is looked up character by character, as in the library
// `tokenizers`.
constexpr size_t kLongestGrapheme = 5;

void ReplaceLiteral(std::string_view text, std::string_view pattern, std::string_view replacement,
                    std::string* out) {
  size_t done = 0;
  for (size_t at = text.find(pattern); at != std::string_view::npos;
       at = text.find(pattern, done)) {
    out->append(text.substr(done, at - done)).append(replacement);
    done = at + pattern.size();
  }
  out->append(text.substr(done));
}

absl::Status ReplaceRegex(std::string_view text, const Regex& regex, std::string_view replacement,
                          std::string* out) {
  size_t done = 0;
  Regex::Match match;
  while (done < text.size()) {
    const absl::StatusOr<bool> found = regex.Find(text, done, &match);
    if (!found.ok()) return found.status();
    if (!*found) break;
    out->append(text.substr(done, match.begin - done)).append(replacement);
    done = match.end;
  }
  out->append(text.substr(done));
  return absl::OkStatus();
}

// Appends the replacement of a grapheme. If the map has texts that the grapheme begins with, the
// replacement of the shortest one stands for the whole grapheme. Otherwise, and if the grapheme is
// long, looks up each of its characters.
void AppendGrapheme(const Charsmap& map, std::string_view grapheme, std::string* out) {
  if (grapheme.size() <= kLongestGrapheme) {
    if (const auto match = map.Shortest(grapheme)) {
      out->append(match->replacement);
      return;
    }
  }
  for (size_t at = 0; at < grapheme.size();) {
    const size_t begin = at;
    NextCodePoint(grapheme, &at);
    const std::string_view character = grapheme.substr(begin, at - begin);
    const auto match = map.Shortest(character);
    out->append(match ? match->replacement : character);
  }
}

absl::Status MapGraphemes(const Charsmap& map, std::string_view text, std::string* out) {
  UErrorCode error = U_ZERO_ERROR;
  // Keep the iterator, because making one takes much longer than finding the graphemes of a word.
  thread_local std::unique_ptr<icu::BreakIterator> iterator;
  if (iterator == nullptr) {
    iterator.reset(icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  }
  UText source = UTEXT_INITIALIZER;
  utext_openUTF8(&source, text.data(), static_cast<int64_t>(text.size()), &error);
  if (U_SUCCESS(error)) iterator->setText(&source, error);
  if (U_FAILURE(error)) {
    utext_close(&source);
    iterator.reset();
    return absl::InternalError(
        absl::StrCat("ICU cannot find the graphemes of the text: ", u_errorName(error)));
  }
  int32_t begin = iterator->first();
  for (int32_t end = iterator->next(); end != icu::BreakIterator::DONE; end = iterator->next()) {
    const auto first = static_cast<size_t>(begin);
    AppendGrapheme(map, text.substr(first, static_cast<size_t>(end) - first), out);
    begin = end;
  }
  utext_close(&source);
  return absl::OkStatus();
}

// Appends a symbol as CollapseSpaces shall see it: the spaces inside a symbol are not removed, and
// all spaces at its beginning are removed if it follows a space.
void AppendSymbol(std::string_view symbol, bool after_space, std::string* out) {
  if (after_space) symbol.remove_prefix(std::min(symbol.find_first_not_of(' '), symbol.size()));
  for (size_t i = 0; i < symbol.size(); ++i) {
    // A space at the end counts for the text behind the symbol.
    const bool is_kept_space = symbol[i] == ' ' && i + 1 < symbol.size();
    out->append(is_kept_space ? kMark : symbol.substr(i, 1));
  }
}

// Replaces the texts of the map. If several texts match at a place, replaces the longest of them.
// Symbols stay unchanged. `collapses`: CollapseSpaces follows.
void MapLongest(const Charsmap& map, const PrefixSet& symbols, std::string_view text,
                TextPlace place, bool collapses, std::string* out) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (const auto symbol = symbols.LongestAt(rest)) {
      const bool follows_space = out->empty() ? place != TextPlace::kContinues : out->back() == ' ';
      AppendSymbol(symbols[*symbol], collapses && follows_space, out);
      at += symbols[*symbol].size();
      continue;
    }
    if (const auto match = map.Longest(rest)) {
      out->append(match->replacement);
      at += match->length;
      continue;
    }
    const size_t begin = at;
    NextCodePoint(text, &at);
    out->append(text.substr(begin, at - begin));
  }
}

// Removes spaces as kCollapseSpaces says. Keeps a space at the beginning if the text continues
// other text.
void CollapseSpaces(std::string_view text, TextPlace place, std::string* out) {
  const size_t begin = out->size();
  bool after_space = place != TextPlace::kContinues;
  for (const char c : text) {
    const bool is_space = c == ' ';
    if (!is_space || !after_space) *out += c;
    after_space = is_space;
  }
  // As in SentencePiece, a mark at the end counts as a space too.
  while (out->size() > begin) {
    std::string_view added = *out;
    added.remove_prefix(begin);
    if (added.ends_with(' ')) {
      out->pop_back();
    } else if (added.ends_with(kMark)) {
      out->resize(out->size() - kMark.size());
    } else {
      break;
    }
  }
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Create(const TokenizerSpec& spec) {
  Normalizer normalizer;
  normalizer.symbols_ = PrefixSet(spec.symbols);
  for (const NormalizerStep& step_spec : spec.normalizer) {
    Step step{step_spec, std::nullopt, {}};
    using Kind = NormalizerStep::Kind;
    if (step_spec.kind == Kind::kCollapseSpaces) normalizer.collapses_ = true;
    if (step_spec.kind == Kind::kReplace && !step_spec.pattern.literal) {
      absl::StatusOr<Regex> regex = Regex::Compile(step_spec.pattern.text);
      if (!regex.ok()) return regex.status();
      step.regex = *std::move(regex);
    }
    if (step_spec.kind == Kind::kCharsmap || step_spec.kind == Kind::kSentencePiece) {
      absl::StatusOr<Charsmap> map = Charsmap::Create(step_spec.text);
      if (!map.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("precompiled_charsmap: ", map.status().message()));
      }
      step.charsmap = *std::move(map);
      step.spec.text.clear();
    }
    normalizer.steps_.push_back(std::move(step));
  }
  return normalizer;
}

absl::StatusOr<std::string_view> Normalizer::RunStep(const Step& step, std::string_view text,
                                                     TextPlace place, std::string* out) const {
  absl::Status status;
  switch (step.spec.kind) {
    case NormalizerStep::Kind::kNfc:
      return NormalizeUnicode(UnicodeForm::kNfc, text, out);
    case NormalizerStep::Kind::kNfd:
      return NormalizeUnicode(UnicodeForm::kNfd, text, out);
    case NormalizerStep::Kind::kNfkc:
      return NormalizeUnicode(UnicodeForm::kNfkc, text, out);
    case NormalizerStep::Kind::kNfkd:
      return NormalizeUnicode(UnicodeForm::kNfkd, text, out);
    case NormalizerStep::Kind::kPrepend:
      if (!PutsPrefix(step.spec.scheme, place)) return text;
      out->append(step.spec.text).append(text);
      break;
    case NormalizerStep::Kind::kReplace:
      if (step.regex) {
        status = ReplaceRegex(text, *step.regex, step.spec.text, out);
      } else {
        ReplaceLiteral(text, step.spec.pattern.text, step.spec.text, out);
      }
      break;
    case NormalizerStep::Kind::kStrip: {
      const size_t begin = step.spec.left ? SpaceEnd(text, 0) : 0;
      const size_t end = step.spec.right ? SpaceBegin(text, begin, text.size()) : text.size();
      return text.substr(begin, end - begin);
    }
    case NormalizerStep::Kind::kCharsmap:
      status = MapGraphemes(step.charsmap, text, out);
      break;
    case NormalizerStep::Kind::kSentencePiece:
      MapLongest(step.charsmap, symbols_, text, place, collapses_, out);
      break;
    case NormalizerStep::Kind::kCollapseSpaces:
      CollapseSpaces(text, place, out);
      break;
  }
  if (!status.ok()) return status;
  return *out;
}

absl::StatusOr<size_t> Normalizer::CutBytes(const Step& step, std::string_view text) {
  if (step.spec.kind == NormalizerStep::Kind::kStrip) {
    return step.spec.left ? SpaceEnd(text, 0) : 0;
  }
  if (step.spec.kind != NormalizerStep::Kind::kReplace || !step.spec.text.empty()) return 0;
  if (!step.regex) {
    return text.starts_with(step.spec.pattern.text) ? step.spec.pattern.text.size() : 0;
  }
  Regex::Match match;
  const absl::StatusOr<bool> found = step.regex->Find(text, 0, &match);
  if (!found.ok()) return found.status();
  return *found && match.begin == 0 ? match.end : 0;
}

absl::StatusOr<bool> Normalizer::CutsBegin(std::string_view original, size_t step,
                                           std::string_view text) const {
  const absl::StatusOr<size_t> cut = CutBytes(steps_[step], text);
  if (!cut.ok()) return cut.status();
  if (*cut == 0) return false;
  // A character may have become several, of which the step removes only the first.
  size_t end = 0;
  NextCodePoint(original, &end);
  std::string buffer;
  const absl::StatusOr<std::string_view> first =
      RunSteps(original.substr(0, end), TextPlace::kContinues, step, &buffer, nullptr);
  if (!first.ok()) return first.status();
  return *cut >= first->size();
}

absl::StatusOr<std::string_view> Normalizer::Run(std::string_view text, TextPlace place,
                                                 std::string* buffer, bool* cut_begin) const {
  return RunSteps(text, place, steps_.size(), buffer, cut_begin);
}

absl::StatusOr<std::string_view> Normalizer::RunSteps(std::string_view text, TextPlace place,
                                                      size_t count, std::string* buffer,
                                                      bool* cut_begin) const {
  const std::string_view original = text;
  std::string next;
  if (text.empty()) return text;
  for (size_t i = 0; i < count; ++i) {
    const Step& step = steps_[i];
    if (text.empty() && !step.spec.to_emptied) continue;
    next.clear();
    if (cut_begin != nullptr && !*cut_begin) {
      const absl::StatusOr<bool> cuts = CutsBegin(original, i, text);
      if (!cuts.ok()) return cuts.status();
      *cut_begin = *cuts;
    }
    const absl::StatusOr<std::string_view> result = RunStep(step, text, place, &next);
    if (!result.ok()) return result.status();
    text = *result;
    if (text.size() > kMaxBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected a text of at most ", kMaxBytes, " bytes once normalized, found ", text.size()));
    }
    if (text.data() != next.data()) continue;  // the step returned a part of its input
    buffer->swap(next);
    text = *buffer;
  }
  return text;
}

}  // namespace longstream
