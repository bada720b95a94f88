// Classifies the bytes at a position of a text. Both the check and the repair of UTF-8 use it.
#include "service/tokenizer/text/utf8.h"

#include <cstring>

namespace longstream {
namespace {

// The kind and the length of the first unit of a text.
struct Unit {
  enum Kind { kCharacter, kInvalid, kIncomplete } kind;
  size_t length;  // bytes of the character, of the maximal subpart, or of the rest
};

// Table 3-7 of the Unicode standard: the number of bytes after a lead byte, and the range of the
// first of them.
struct Lead {
  int trailing;  // 0: not the lead byte of a character with several bytes
  unsigned char low;
  unsigned char high;
};

Lead LeadOf(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // not above U+10FFFF
  return {0, 0, 0};
}

// REQUIRES: !text.empty().
Unit Classify(std::string_view text) {
  const unsigned char first = ByteAt(text, 0);
  if (first < 0x80) return {Unit::kCharacter, 1};
  const Lead lead = LeadOf(first);
  if (lead.trailing == 0) return {Unit::kInvalid, 1};
  const size_t length = static_cast<size_t>(lead.trailing) + 1;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Unit::kIncomplete, i};
    const unsigned char byte = ByteAt(text, i);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
    if (!fits) return {Unit::kInvalid, i};
  }
  return {Unit::kCharacter, length};
}

// Returns the length of the ASCII text at the beginning, rounded down to words of eight bytes.
size_t AsciiWords(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  size_t length = 0;
  while (length + sizeof(uint64_t) <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + length, sizeof(word));
    if ((word & kHighBits) != 0) break;
    length += sizeof(word);
  }
  return length;
}

}  // namespace

size_t ValidUtf8Prefix(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    offset += AsciiWords(text.substr(offset));
    if (offset == text.size()) break;
    const Unit unit = Classify(text.substr(offset));
    if (unit.kind != Unit::kCharacter) break;
    offset += unit.length;
  }
  return offset;
}

char32_t NextCodePoint(std::string_view text, size_t* offset) {
  const unsigned char first = ByteAt(text, (*offset)++);
  if (first < 0x80) return first;
  const int trailing = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  char32_t code_point = first & (0x3Fu >> trailing);
  for (int i = 0; i < trailing; ++i) {
    code_point = (code_point << 6) | (ByteAt(text, (*offset)++) & 0x3Fu);
  }
  return code_point;
}

char32_t PreviousCodePoint(std::string_view text, size_t* offset) {
  do {
    --*offset;
  } while (*offset > 0 && (ByteAt(text, *offset) & 0xC0) == 0x80);
  size_t start = *offset;
  return NextCodePoint(text, &start);
}

void Utf8Stream::Push(std::string_view bytes, std::string* text) {
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const size_t valid = ValidUtf8Prefix(bytes);
    text->append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    const Unit unit = Classify(bytes);
    if (unit.kind == Unit::kIncomplete) {
      pending_ = bytes;
      return;
    }
    Replace(unit.length, text);
    bytes.remove_prefix(unit.length);
  }
}

void Utf8Stream::Finish(std::string* text) {
  if (!pending_.empty()) Replace(pending_.size(), text);
  pending_.clear();
}

// Appends the replacement for `length` invalid bytes.
void Utf8Stream::Replace(size_t length, std::string* text) const {
  const size_t count = invalid_ == InvalidUtf8::kReplacementPerByte ? length : 1;
  for (size_t i = 0; i < count; ++i) text->append(kReplacementCharacter);
}

std::string RepairUtf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string text;
  stream.Push(bytes, &text);
  stream.Finish(&text);
  return text;
}

}  // namespace longstream
