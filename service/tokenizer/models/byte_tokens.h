// Tokens for single bytes ("<0x0A>"). A model over characters uses them for characters without a
// token.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENS_H_
#define LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

inline constexpr int32_t kNoId = -1;

// Returns the byte that a text such as "<0x0A>" stands for. The hexadecimal digits may be in upper
// or lower case.
std::optional<unsigned char> ByteOfToken(std::string_view text);

// Returns the ids of the tokens "<0x00>" to "<0xFF>" (upper-case digits) in the vocabulary and the
// reserved tokens. kNoId: the byte has no token.
std::array<int32_t, 256> ByteTokens(const TokenizerSpec& spec);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENS_H_
