// Reads files of a model directory. A name may be a link to anything, so the kind of file is
// checked first.
#include "service/tokenizer/files/model_file.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace longstream {

namespace fs = std::filesystem;

namespace {

// If Git LFS is not installed, a clone has a small text file, a "pointer", in place of each large
// file. These are its first bytes.
constexpr absl::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

}  // namespace

bool HasModelFile(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

absl::StatusOr<std::optional<std::string>> FindModelFile(const fs::path& path) {
  if (!HasModelFile(path)) return std::nullopt;
  absl::StatusOr<std::string> text = ReadModelFile(path);
  if (!text.ok()) return text.status();
  return *std::move(text);
}

absl::StatusOr<std::string> ReadModelFile(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_symlink(path, ignored) && !fs::exists(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": is a link to ", fs::read_symlink(path, ignored).string(),
                     ", which does not exist: the directory is incomplete"));
  }
  // A directory can be opened, but the first read fails. A pipe would block until another process
  // writes.
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": is not a regular file"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream buffer;
  buffer << file.rdbuf();
  if (!file.is_open() || buffer.bad()) {
    const std::string why =
        errno == 0 ? "" : ": " + std::error_code(errno, std::generic_category()).message();
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": cannot be read", why));
  }
  std::string text = std::move(buffer).str();
  if (absl::StartsWith(text, kLfsPointer)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": expected the file itself, found a pointer of Git LFS to it"));
  }
  return text;
}

}  // namespace longstream
