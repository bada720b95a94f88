// Cuts a text into words. The model encodes each word separately, so no token spans two words.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_PRE_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_PRE_TOKENIZER_H_

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tokenizer/spec/text_place.h"
#include "service/tokenizer/spec/tokenizer_spec.h"
#include "service/tokenizer/text/regex.h"

namespace longstream {

// Immutable after Create, so any number of threads may use it.
class PreTokenizer {
 public:
  // UNIMPLEMENTED: a pattern is not supported; the message names the pattern and the unsupported
  // construct.
  static absl::StatusOr<PreTokenizer> Create(const std::vector<PreTokenizerStep>& steps);

  using WordSink = absl::FunctionRef<void(std::string_view word)>;

  // Calls `sink` with each word of the text, in order. No word is empty. A word is valid only
  // during the call. Errors as for Regex::Find. REQUIRES: text is UTF-8.
  absl::Status Split(std::string_view text, TextPlace place, WordSink sink) const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::optional<Regex> regex;  // the pattern by which the step cuts
  };

  absl::Status RunSteps(std::string_view text, TextPlace place, size_t step, WordSink sink) const;
  absl::Status Cut(std::string_view text, TextPlace place, size_t step, WordSink sink) const;

  std::vector<Step> steps_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_PRE_TOKENIZER_H_
