// Finds added tokens, such as "<|im_end|>", that are spelled in a text.
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

// Immutable: may be used by any number of threads.
class AddedTokenMatcher {
 public:
  // A piece of the text: an added token, or the text between two.
  struct Segment {
    std::optional<int32_t> id;
    std::string_view text;  // empty where there is an id
  };

  AddedTokenMatcher() = default;

  // Looks for the `content` of the tokens. REQUIRES: contents are not empty and all different.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // The segments of a text, in order. The search goes from the left, and the longest token at a
  // place counts. A special token is text if parse_special is false or if it has a byte of
  // `foreign` (EncodeOptions::foreign). REQUIRES: text is UTF-8.
  std::vector<Segment> Split(std::string_view text, bool parse_special,
                             std::span<const ByteRange> foreign = {}) const;

 private:
  std::vector<AddedToken> tokens_;  // by ascending content
  PrefixSet contents_;              // of tokens_, at the same places
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_ADDED_TOKEN_MATCHER_H_
