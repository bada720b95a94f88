// The four normalization forms of Unicode.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_UNICODE_FORM_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_UNICODE_FORM_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace longstream {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns the text in the form: `text` itself if it is in that form already, otherwise *buffer.
// Uses the characters of Unicode 9, like Hugging Face's tokenizers; newer characters are neither
// reordered nor composed nor decomposed. Takes O(n log n) time for any text. The result has at most
// 3 (kNfc, kNfd) or 11 (kNfkc, kNfkd) times as many bytes. Thread-safe. INTERNAL: ICU lacks memory
// or its data. REQUIRES: text is UTF-8 and shorter than 2 GiB / 3.
absl::StatusOr<std::string_view> NormalizeUnicode(UnicodeForm form, std::string_view text,
                                                  std::string* buffer);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_UNICODE_FORM_H_
