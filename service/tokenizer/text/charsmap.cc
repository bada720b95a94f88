// Walks the double-array trie of a characters map. Checks every index, because the file may be
// damaged.
#include "service/tokenizer/text/charsmap.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

constexpr size_t kUnitBytes = sizeof(uint32_t);

uint32_t LittleEndian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < kUnitBytes; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

// The fields of a unit. The layout is that of the library Darts-clone.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FFu; }
size_t Offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200u) >> 6); }

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Create(std::string_view blob) {
  Charsmap map;
  if (blob.empty()) return map;
  const size_t trie_bytes = blob.size() < kUnitBytes ? 0 : LittleEndian(blob, 0);
  const size_t rest = blob.size() < kUnitBytes ? 0 : blob.size() - kUnitBytes;
  if (trie_bytes == 0 || trie_bytes % kUnitBytes != 0 || trie_bytes >= rest ||
      blob.back() != '\0') {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected the size of a trie, the trie and texts that end with a zero byte, found ",
        blob.size(), " bytes that are not of this form"));
  }
  map.units_.reserve(trie_bytes / kUnitBytes);
  for (size_t at = kUnitBytes; at < kUnitBytes + trie_bytes; at += kUnitBytes) {
    map.units_.push_back(LittleEndian(blob, at));
  }
  map.replacements_ = blob.substr(kUnitBytes + trie_bytes);
  if (const size_t valid = ValidUtf8Prefix(map.replacements_); valid < map.replacements_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected UTF-8 texts, found invalid UTF-8 at byte ", valid, " of them"));
  }
  return map;
}

std::optional<std::string_view> Charsmap::Replacement(uint32_t offset) const {
  if (offset >= replacements_.size()) return std::nullopt;
  // Only a damaged map has an offset in the middle of a character.
  if ((static_cast<unsigned char>(replacements_[offset]) & 0xC0) == 0x80) return std::nullopt;
  return std::string_view(replacements_.c_str() + offset);
}

std::optional<Charsmap::Match> Charsmap::Find(std::string_view text, bool longest) const {
  std::optional<Match> found;
  if (units_.empty()) return found;
  size_t node = Offset(units_.front());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit) || node >= units_.size()) continue;
    const std::optional<std::string_view> replacement = Replacement(Value(units_[node]));
    if (!replacement) continue;
    found = Match{i + 1, *replacement};
    if (!longest) break;
  }
  return found;
}

}  // namespace longstream
