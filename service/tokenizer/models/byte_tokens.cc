// Reads and writes texts of the form <0xHH>.
#include "service/tokenizer/models/byte_tokens.h"

#include <cstddef>
#include <string>

namespace longstream {
namespace {

constexpr size_t kTextSize = 6;

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool IsLower(char c) { return c >= 'a' && c <= 'f'; }

}  // namespace

std::optional<unsigned char> ByteOfToken(std::string_view text) {
  if (text.size() != kTextSize || !text.starts_with("<0x") || text.back() != '>') {
    return std::nullopt;
  }
  const int high = DigitOf(text[3]);
  const int low = DigitOf(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::array<int32_t, 256> ByteTokens(const TokenizerSpec& spec) {
  std::array<int32_t, 256> ids;
  ids.fill(kNoId);
  for (const auto* list : {&spec.vocabulary, &spec.reserved}) {
    for (const auto& [text, id] : *list) {
      const std::optional<unsigned char> byte = ByteOfToken(text);
      if (byte && !IsLower(text[3]) && !IsLower(text[4])) ids[*byte] = id;
    }
  }
  return ids;
}

}  // namespace longstream
