// Checks names, and quotes them.
#include "service/config/names.h"

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

std::string EscapedName(std::string_view name, size_t most_bytes) {
  return absl::StrCat("'", absl::CHexEscape(std::string(name.substr(0, most_bytes))),
                      name.size() > most_bytes ? "...'" : "'");
}

absl::Status CheckName(std::string_view field, std::string_view name) {
  bool ok = !name.empty() && name.size() <= kMaxNameBytes &&
            absl::ascii_isalnum(static_cast<unsigned char>(name.front()));
  for (const char c : name) ok &= IsNameCharacter(c);
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(field.data(), field.size()), ": expected 1 to ", kMaxNameBytes,
                   " letters, digits, '.', '_' and '-', the first one a letter or a digit, found ",
                   EscapedName(name, kMaxNameBytes)));
}

}  // namespace longstream
