// Text from files as part of a sentence.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUOTE_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUOTE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace longstream {

// `text` in double quotes, on one line and short, even from a damaged file: control characters and
// invalid UTF-8 become "?"; text beyond 100 bytes is cut and marked "...".
std::string Quoted(std::string_view text);

// The same without quotes, cut after `max_bytes`.
std::string Shortened(std::string_view text, size_t max_bytes = 100);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUOTE_H_
