// Makes text from files safe to print in a sentence.
#ifndef LONGSTREAM_BACKENDS_ERRORS_QUOTE_H_
#define LONGSTREAM_BACKENDS_ERRORS_QUOTE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace longstream {

// Returns `text` in double quotes, on one line and short, even if it comes from a damaged file.
// Control characters and invalid UTF-8 become "?". Text beyond 100 bytes is cut and marked "...".
std::string Quoted(std::string_view text);

// Does the same without quotes, and cuts after `max_bytes`.
std::string Shortened(std::string_view text, size_t max_bytes = 100);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ERRORS_QUOTE_H_
