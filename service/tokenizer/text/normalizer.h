// Normalizes a text before it is cut into words, by the steps of TokenizerSpec::normalizer.
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

// Immutable after Create, so any number of threads may use it.
class Normalizer {
 public:
  // Uses the fields `normalizer` and `symbols` of the spec. UNIMPLEMENTED: a pattern is not
  // supported. INVALID_ARGUMENT: a characters map is damaged.
  static absl::StatusOr<Normalizer> Create(const TokenizerSpec& spec);

  // Returns the normalized text: a part of `text` if the steps only remove text at its ends,
  // otherwise *buffer. `place` decides whether a prefix is put before the text. O(n log n).
  // INVALID_ARGUMENT: the result of a step is longer than 2 GiB / 3. Other errors as for
  // NormalizeUnicode and Regex::Find. REQUIRES: text is UTF-8 and shorter than 2 GiB / 3.
  // *cut_begin becomes true if a step removes the first character of the text, except a space that
  // kCollapseSpaces removes. nullptr: nobody asks.
  absl::StatusOr<std::string_view> Run(std::string_view text, TextPlace place, std::string* buffer,
                                       bool* cut_begin = nullptr) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::optional<Regex> regex;  // for kReplace with a regular expression
    Charsmap charsmap;           // for kCharsmap and kSentencePiece
  };

  // Runs one step. Returns a part of `text`, or *out, which must be empty before the call.
  absl::StatusOr<std::string_view> RunStep(const Step& step, std::string_view text, TextPlace place,
                                           std::string* out) const;

  // The first `count` steps.
  absl::StatusOr<std::string_view> RunSteps(std::string_view text, TextPlace place, size_t count,
                                            std::string* buffer, bool* cut_begin) const;
  // How many bytes the step removes at the beginning.
  static absl::StatusOr<size_t> CutBytes(const Step& step, std::string_view text);
  // Whether the step with this index removes the whole first character of the original text, of
  // which the earlier steps have made `text`.
  absl::StatusOr<bool> CutsBegin(std::string_view original, size_t step,
                                 std::string_view text) const;

  std::vector<Step> steps_;
  bool collapses_ = false;  // a step is kCollapseSpaces
  PrefixSet symbols_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_NORMALIZER_H_
