// Looks members up in the sorted texts: each byte of the text narrows the range of members that
// match.
#include "service/tokenizer/text/prefix_set.h"

#include <algorithm>
#include <utility>

#include "service/tokenizer/text/utf8.h"

namespace longstream {
PrefixSet::PrefixSet(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (const std::string& text : texts_) begins_member_[ByteAt(text, 0)] = true;
}

std::optional<size_t> PrefixSet::LongestAt(std::string_view text) const {
  if (text.empty() || !begins_member_[ByteAt(text, 0)]) return std::nullopt;
  std::optional<size_t> longest;
  auto first = texts_.begin();
  // In the loop, the members [first, last) begin with the first `length` bytes of the text.
  auto last = texts_.end();
  for (size_t length = 0; length < text.size(); ++length) {
    const auto byte_there = [length](const std::string& member) {
      return length < member.size() ? int{ByteAt(member, length)} : -1;
    };
    const int byte = ByteAt(text, length);
    first = std::ranges::lower_bound(first, last, byte, {}, byte_there);
    last = std::ranges::upper_bound(first, last, byte, {}, byte_there);
    if (first == last) break;
    if (first->size() == length + 1) longest = static_cast<size_t>(first - texts_.begin());
  }
  return longest;
}

}  // namespace longstream
