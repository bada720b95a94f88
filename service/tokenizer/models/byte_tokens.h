// Tokens for single bytes ("<0x0A>"), to which a model of characters falls back.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENS_H_
#define LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

inline constexpr int32_t kNoId = -1;

// The byte that a text such as "<0x0A>" stands for; hexadecimal digits of either case.
std::optional<unsigned char> ByteOfToken(std::string_view text);

// The ids of "<0x00>" to "<0xFF>", digits in upper case, among the vocabulary and the reserved
// tokens; kNoId for a byte without a token.
std::array<int32_t, 256> ByteTokens(const TokenizerSpec& spec);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_MODELS_BYTE_TOKENS_H_
