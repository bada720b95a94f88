// Finds stop strings in a text that arrives in pieces.
//
// Text that may be the beginning of a stop string is held back until that is decided, so that no
// part of a stop string is ever given out. The first complete stop string counts; if several end at
// the same byte, the longest. The result does not depend on how the text is cut.
//
// Not thread-safe.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_STREAM_STOP_MATCHER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_STREAM_STOP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longstream {

class StopMatcher {
 public:
  // Without stop strings: holds nothing back.
  StopMatcher() = default;

  // INVALID_ARGUMENT: a stop string is empty, or not UTF-8 and so could never be found.
  static absl::StatusOr<StopMatcher> Create(const std::vector<std::string>& stop_strings);

  // Takes the next piece of text, whole UTF-8 characters, and appends to *out the decided text,
  // whole characters too. Returns the index of the stop string that was found: *out then ends
  // before it, the rest of the text is dropped, and the matcher takes no more. O(bytes of text *
  // number of stop strings).
  //
  // REQUIRES: no stop string has been found yet.
  std::optional<size_t> Push(std::string_view text, std::string* out);

  // Appends the text held back, as no more text will come. Text pushed after it is searched anew.
  void Flush(std::string* out);

 private:
  // One stop string by the method of Knuth, Morris and Pratt.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> border;  // border[i]: longest proper prefix of text that ends text[0..i]
    size_t matched = 0;            // bytes of text that end the input so far
  };

  std::vector<Pattern> patterns_;
  std::string held_;  // the end of the input, as long as the longest `matched`
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_STREAM_STOP_MATCHER_H_
