// Unicode normalization form C.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_NFC_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_NFC_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace longstream {

// Returns the text in form C: `text` itself if it is in that form already, otherwise *buffer. Uses
// the characters of Unicode 9, like Hugging Face's tokenizers; newer characters are neither
// reordered nor composed. Takes O(n log n) time for any text. Thread-safe. INTERNAL: ICU lacks
// memory or its data. REQUIRES: text is UTF-8 and shorter than 2 GiB / 3.
absl::StatusOr<std::string_view> NormalizeNfc(std::string_view text, std::string* buffer);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_NFC_H_
