// Parses, formats and draws session ids.
#include "service/sessions/session_id.h"

#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longstream {
namespace {

constexpr size_t kDigits = 32;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The character that begins at `at` in a UTF-8 text.
std::string_view CharacterAt(std::string_view text, size_t at) {
  size_t size = 1;
  while (at + size < text.size() && (text[at + size] & 0xC0) == 0x80) ++size;
  return text.substr(at, size);
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::StatusOr<SessionId> SessionId::Parse(std::string_view text, std::string_view field) {
  if (text.size() != kDigits) {
    return absl::InvalidArgumentError(absl::StrCat(
        View(field), ": expected 32 hexadecimal digits, found ", text.size(), " bytes"));
  }
  uint64_t halves[2] = {0, 0};
  for (size_t i = 0; i < kDigits; ++i) {
    const int digit = HexDigit(text[i]);
    if (digit < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(View(field), ": expected 32 hexadecimal digits, found '",
                       absl::Utf8SafeCHexEscape(View(CharacterAt(text, i))), "' at byte ", i));
    }
    uint64_t& half = halves[i / 16];
    half = half << 4 | static_cast<uint64_t>(digit);
  }
  return SessionId{halves[0], halves[1]};
}

SessionId SessionId::Random() {
  SessionId id;
  size_t filled = 0;
  while (filled < sizeof(id)) {
    const ssize_t got = getrandom(reinterpret_cast<char*>(&id) + filled, sizeof(id) - filled, 0);
    // With a valid buffer, getrandom can only fail if a signal interrupts it while it waits for
    // entropy.
    if (got > 0) filled += static_cast<size_t>(got);
  }
  return id;
}

std::string SessionId::ToString() const { return absl::StrFormat("%016x%016x", high, low); }

std::string SessionId::Bytes() const {
  std::string bytes(kBytes, '\0');
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<char>(low >> (56 - 8 * i));
  }
  return bytes;
}

SessionId SessionId::FromBytes(std::string_view bytes) {
  SessionId id;
  for (size_t i = 0; i < 8; ++i) {
    id.high = id.high << 8 | static_cast<unsigned char>(bytes[i]);
    id.low = id.low << 8 | static_cast<unsigned char>(bytes[8 + i]);
  }
  return id;
}

absl::Status NoSession(const SessionId& id) {
  return absl::NotFoundError(absl::StrCat("session_id: no session ", id.ToString()));
}

}  // namespace longstream
