// The alphabet in which byte-level BPE writes its vocabulary: one printable character per byte. The
// bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF are written as the code points with the same numbers.
// The other 68 bytes, in ascending order, are written as U+0100 to U+0143. So a space is "Ġ"
// (U+0120).
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_ALPHABET_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_ALPHABET_H_

#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// Returns the character for a byte, as UTF-8.
std::string ByteToAlphabet(unsigned char byte);

// Returns the bytes that a text in the alphabet stands for, or nothing if a character is not in the
// alphabet.
// REQUIRES: text is UTF-8.
std::optional<std::string> AlphabetToBytes(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_ALPHABET_H_
