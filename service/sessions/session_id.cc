// Parses, formats and draws session ids.
#include "service/sessions/session_id.h"

#include <sys/random.h>

#include "absl/status/status.h"
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

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::StatusOr<SessionId> SessionId::Parse(std::string_view text, std::string_view field) {
  if (text.size() != kDigits) {
    return absl::InvalidArgumentError(absl::StrCat(
        View(field), ": expected 32 hexadecimal digits, found ", text.size(), " characters"));
  }
  uint64_t halves[2] = {0, 0};
  for (size_t i = 0; i < kDigits; ++i) {
    const int digit = HexDigit(text[i]);
    if (digit < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(View(field), ": expected 32 hexadecimal digits, found '",
                       View(text.substr(i, 1)), "' at character ", i));
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

}  // namespace longstream
