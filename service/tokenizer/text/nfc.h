// Unicode normalization form C.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_NFC_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_NFC_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace longstream {

// The text in form C: `text` itself where it is in that form already, else *buffer. Characters are
// as in Unicode 9, the version that Hugging Face's tokenizers normalize by: younger ones are
// neither marks nor composed. Takes O(n log n), whatever the text. Thread-safe. INTERNAL: ICU lacks
// memory or its data. REQUIRES: text is UTF-8, below 2 GiB / 3.
absl::StatusOr<std::string_view> NormalizeNfc(std::string_view text, std::string* buffer);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_NFC_H_
