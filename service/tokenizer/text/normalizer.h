// Changes a text before it is cut into words, by the steps of TokenizerSpec::normalizer.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_NORMALIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_NORMALIZER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tokenizer/spec/text_place.h"
#include "service/tokenizer/spec/tokenizer_spec.h"
#include "service/tokenizer/text/charsmap.h"
#include "service/tokenizer/text/prefix_set.h"
#include "service/tokenizer/text/regex.h"

namespace longstream {

// Immutable after Create: may be used by any number of threads.
class Normalizer {
 public:
  // Takes normalizer and symbols of the spec. UNIMPLEMENTED: a pattern is not supported.
  // INVALID_ARGUMENT: a characters map is damaged.
  static absl::StatusOr<Normalizer> Create(const TokenizerSpec& spec);

  // The normalized text: a part of `text` if nothing else has to change, else *buffer. O(n log n).
  // Whether a prefix is put before the text depends on its place.
  // INVALID_ARGUMENT: a step makes more than 2 GiB / 3 of it; else errors as NormalizeNfc and
  // Regex::Find. REQUIRES: text is UTF-8, below 2 GiB / 3.
  absl::StatusOr<std::string_view> Run(std::string_view text, TextPlace place,
                                       std::string* buffer) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::optional<Regex> regex;  // kReplace with a regular expression
    Charsmap charsmap;           // kCharsmap, kSentencePiece
  };

  // The text after the step: a part of `text`, or *out, which is empty before.
  absl::StatusOr<std::string_view> RunStep(const Step& step, std::string_view text, TextPlace place,
                                           std::string* out) const;

  std::vector<Step> steps_;
  PrefixSet symbols_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_NORMALIZER_H_
