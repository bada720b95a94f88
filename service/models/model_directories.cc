// Checks names, and looks at what they name without following links.
#include "service/models/model_directories.h"

#include <filesystem>
#include <system_error>

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

absl::Status CheckModelName(std::string_view field, std::string_view name) {
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

absl::StatusOr<std::string> FindModelDirectory(std::span<const std::string> roots,
                                               std::string_view name) {
  namespace fs = std::filesystem;
  if (absl::Status status = CheckModelName("directory", name); !status.ok()) return status;
  const absl::string_view shown(name.data(), name.size());
  for (const std::string& root : roots) {
    const fs::path path = fs::path(root) / name;
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (status.type() == fs::file_type::not_found) continue;
    if (status.type() == fs::file_type::directory) return path.string();
    return absl::FailedPreconditionError(
        absl::StrCat("directory: ", shown, " is ",
                     status.type() == fs::file_type::symlink ? "a symbolic link" : "no directory"));
  }
  return absl::NotFoundError(
      absl::StrCat("directory: no directory '", shown, "' in admin.model_directories"));
}

}  // namespace longstream
