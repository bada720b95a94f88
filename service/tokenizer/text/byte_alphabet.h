// The alphabet in which byte-level BPE writes its vocabulary: one printable character per byte.
// Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF are the code points of the same number; the other 68, in
// ascending order, are U+0100 to U+0143. A space is therefore "Ġ" (U+0120).
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_ALPHABET_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_ALPHABET_H_

#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// The UTF-8 character that stands for a byte.
std::string ByteToAlphabet(unsigned char byte);

// The bytes that a text in the alphabet stands for; none where a character is not of the alphabet.
// REQUIRES: text is UTF-8.
std::optional<std::string> AlphabetToBytes(std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_ALPHABET_H_
