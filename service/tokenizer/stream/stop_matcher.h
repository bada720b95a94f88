// Finds stop strings in a text that arrives in pieces.
//
// Text that may be the beginning of a stop string is held back until later text decides it. So no
// part of a stop string is ever returned. The stop string that ends first counts. If several end at
// the same byte, the longest of them counts. The result does not depend on how the text is divided
// into pieces.
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
  // Makes a matcher without stop strings, which holds nothing back.
  StopMatcher() = default;

  // INVALID_ARGUMENT: a stop string is empty, or is not UTF-8 and so could never be found.
  static absl::StatusOr<StopMatcher> Create(const std::vector<std::string>& stop_strings);

  // Takes the next piece of text and appends to *out the text that is decided. Both texts consist
  // of whole UTF-8 characters. If a stop string was found, returns its index; *out then ends before
  // the stop string, and the rest of the text is dropped. O(bytes of text * number of stop
  // strings).
  //
  // REQUIRES: no stop string has been found yet.
  std::optional<size_t> Push(std::string_view text, std::string* out);

  // Appends the text that was held back, because no more text will come. If Push is called
  // afterwards, the search starts again.
  void Flush(std::string* out);

 private:
  // The automaton of one stop string (Knuth, Morris and Pratt).
  struct Pattern {
    std::string text;
    std::vector<uint32_t> border;  // border[i]: length of the longest proper prefix of text that is
                                   // a suffix of text[0..i]
    size_t matched = 0;  // length of the longest prefix of text that ends the input so far
  };

  std::vector<Pattern> patterns_;
  std::string held_;  // the last bytes of the input, as many as the greatest `matched`
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_STREAM_STOP_MATCHER_H_
