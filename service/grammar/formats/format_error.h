// The exception for errors of a response format. The parsers of this folder throw it, and the
// functions AddRegex, AddEbnf and AddJsonSchema turn it into INVALID_ARGUMENT.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_FORMAT_ERROR_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_FORMAT_ERROR_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace longstream {

struct FormatError {
  std::string message;
};

[[noreturn]] inline void FailFormat(std::string message) { throw FormatError{std::move(message)}; }

// A text from the client, cut to a length that fits into an error, without control characters.
// REQUIRES: text is UTF-8.
inline std::string Shown(std::string_view text, size_t most = 80) {
  const bool is_cut = text.size() > most;
  while (is_cut && most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  std::string shown(text.substr(0, most));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return is_cut ? shown + "..." : shown;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_FORMAT_ERROR_H_
