// Finds added tokens, such as "<|im_end|>", in a text.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_ADDED_TOKEN_MATCHER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_ADDED_TOKEN_MATCHER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "service/tokenizer/spec/tokenizer_spec.h"
#include "service/tokenizer/text/byte_range.h"
#include "service/tokenizer/text/prefix_set.h"

namespace longstream {

// Immutable, so any number of threads may use it.
class AddedTokenMatcher {
 public:
  // A piece of the text: an added token, or the text between two of them.
  struct Segment {
    std::optional<int32_t> id;
    std::string_view text;  // empty if there is an id
  };

  AddedTokenMatcher() = default;

  // Makes a matcher that looks for the `content` of the tokens. REQUIRES: no content is empty, and
  // all are different.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Returns the segments of a text, in order. Searches from left to right; if several tokens begin
  // at one place, the longest counts. A special token stays text if parse_special is false or if
  // one of its bytes is in `foreign` (EncodeOptions::foreign). REQUIRES: text is UTF-8.
  std::vector<Segment> Split(std::string_view text, bool parse_special,
                             std::span<const ByteRange> foreign = {}) const;

 private:
  std::vector<AddedToken> tokens_;  // sorted by content
  PrefixSet contents_;              // contents of tokens_, with the same indices
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_ADDED_TOKEN_MATCHER_H_
