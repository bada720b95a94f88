// Checks names.
#include "service/config/names.h"

#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr size_t kMaxNameBytes = 128;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

}  // namespace

absl::Status CheckName(std::string_view field, std::string_view name) {
  bool ok = !name.empty() && name.size() <= kMaxNameBytes &&
            absl::ascii_isalnum(static_cast<unsigned char>(name.front()));
  for (const char c : name) ok &= IsNameCharacter(c);
  if (ok) return absl::OkStatus();
  const std::string shown(name.substr(0, kMaxNameBytes));
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(field.data(), field.size()), ": expected 1 to ", kMaxNameBytes,
                   " letters, digits, '.', '_' and '-', the first one a letter or a digit, found '",
                   absl::CHexEscape(shown), name.size() > kMaxNameBytes ? "...'" : "'"));
}

}  // namespace longstream
