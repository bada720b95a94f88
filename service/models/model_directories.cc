// Looks at what names name without following links.
#include "service/models/model_directories.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/config/names.h"

namespace longstream {

absl::StatusOr<std::string> FindModelDirectory(std::span<const std::string> roots,
                                               std::string_view name) {
  namespace fs = std::filesystem;
  if (absl::Status status = CheckName("directory", name); !status.ok()) return status;
  const absl::string_view shown(name.data(), name.size());
  for (const std::string& root : roots) {
    const fs::path path = fs::path(root) / name;
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (status.type() == fs::file_type::not_found) continue;
    if (status.type() == fs::file_type::directory) return path.string();
    if (status.type() == fs::file_type::regular && path.extension() == ".gguf") {
      return path.string();
    }
    return absl::FailedPreconditionError(absl::StrCat("directory: ", shown, " is ",
                                                      status.type() == fs::file_type::symlink
                                                          ? "a symbolic link"
                                                          : "no directory and no GGUF file"));
  }
  return absl::NotFoundError(absl::StrCat("directory: no directory or GGUF file '", shown,
                                          "' in admin.model_directories"));
}

}  // namespace longstream
