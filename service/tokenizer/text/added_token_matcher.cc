// Finds added tokens from left to right, with the white space that they include.
#include "service/tokenizer/text/added_token_matcher.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <string>
#include <utility>

#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/text/white_space.h"

namespace longstream {
namespace {

// Whether \w matches the character in Unicode's regular expressions (UTS 18, annex C).
bool IsWord(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  constexpr uint32_t kWordCategories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(c) || (U_GET_GC_MASK(c) & kWordCategories) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL);
}

// Whether there is no word character directly before `begin` or at `end`.
bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWord(PreviousCodePoint(text, &begin))) return false;
  return end == text.size() || !IsWord(NextCodePoint(text, &end));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  std::vector<std::string> contents;
  contents.reserve(tokens_.size());
  for (const AddedToken& token : tokens_) contents.push_back(token.content);
  contents_ = PrefixSet(std::move(contents));
}

std::vector<AddedTokenMatcher::Segment> AddedTokenMatcher::Split(
    std::string_view text, bool parse_special, std::span<const ByteRange> foreign) const {
  std::vector<Segment> segments;
  size_t done = 0;       // the text before this offset is in segments
  size_t space_end = 0;  // end of the white space that the last token with rstrip included
  size_t at = 0;
  while (at < text.size()) {
    const std::optional<size_t> index = contents_.LongestAt(text.substr(at));
    if (!index) {
      ++at;
      continue;
    }
    const AddedToken* token = &tokens_[*index];
    size_t begin = at;
    size_t end = at + token->content.size();
    at = end;  // continue the search after the token, even if it does not count
    if (token->special && !parse_special) continue;
    if (token->special && AnyWithin(foreign, begin, end)) {
      // Another token may begin within this one and be text of the template.
      at = begin + 1;
      continue;
    }
    if (token->single_word && !StandsAlone(text, begin, end)) continue;
    if (token->lstrip) begin = SpaceBegin(text, done, begin);
    if (token->rstrip) {
      // This token may itself be white space, and lie within the white space that the last token
      // included.
      space_end = end < space_end ? space_end : SpaceEnd(text, end);
      end = space_end;
    }
    if (done < begin) segments.push_back({std::nullopt, text.substr(done, begin - done)});
    segments.push_back({token->id, {}});
    done = end;
  }
  if (done < text.size()) segments.push_back({std::nullopt, text.substr(done)});
  return segments;
}

}  // namespace longstream
