// Added tokens are looked up by narrowing a range of the sorted contents byte by byte.
#include "service/tokenizer/added_token_matcher.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <utility>

#include "service/tokenizer/utf8.h"

namespace longstream {
namespace {

unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool IsSpace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

// \w of Unicode's regular expressions (UTS 18, annex C).
bool IsWord(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  constexpr uint32_t kWordCategories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(c) || (U_GET_GC_MASK(c) & kWordCategories) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL);
}

// Whether no word character stands directly before `begin` or at `end`.
bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWord(PreviousCodePoint(text, &begin))) return false;
  return end == text.size() || !IsWord(NextCodePoint(text, &end));
}

// Where the white space that ends at `end` begins, but not before `limit`.
size_t SpaceBegin(std::string_view text, size_t limit, size_t end) {
  while (end > limit) {
    size_t before = end;
    if (!IsSpace(PreviousCodePoint(text, &before))) break;
    end = before;
  }
  return end;
}

// Where the white space that begins at `begin` ends.
size_t SpaceEnd(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t after = begin;
    if (!IsSpace(NextCodePoint(text, &after))) break;
    begin = after;
  }
  return begin;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) begins_token_[ByteAt(token.content, 0)] = true;
}

// The longest token that the text begins with, or nullptr.
const AddedToken* AddedTokenMatcher::LongestAt(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin();
  auto last = tokens_.end();  // [first, last) agree with the text in its first `length` bytes
  for (size_t length = 0; length < text.size(); ++length) {
    const auto byte_there = [length](const AddedToken& token) {
      return length < token.content.size() ? int{ByteAt(token.content, length)} : -1;
    };
    const int byte = ByteAt(text, length);
    first = std::ranges::lower_bound(first, last, byte, {}, byte_there);
    last = std::ranges::upper_bound(first, last, byte, {}, byte_there);
    if (first == last) break;
    if (first->content.size() == length + 1) longest = &*first;
  }
  return longest;
}

std::vector<AddedTokenMatcher::Segment> AddedTokenMatcher::Split(std::string_view text,
                                                                 bool parse_special) const {
  std::vector<Segment> segments;
  size_t done = 0;       // the text before is in segments
  size_t space_end = 0;  // end of the white space that a token took last
  size_t at = 0;
  while (at < text.size()) {
    const AddedToken* token =
        begins_token_[ByteAt(text, at)] ? LongestAt(text.substr(at)) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->content.size();
    at = end;  // the search goes on behind the token itself, whether it counts or not
    if (token->special && !parse_special) continue;
    if (token->single_word && !StandsAlone(text, begin, end)) continue;
    if (token->lstrip) begin = SpaceBegin(text, done, begin);
    if (token->rstrip) {
      // Tokens that are white space themselves may follow within space that was taken already.
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
