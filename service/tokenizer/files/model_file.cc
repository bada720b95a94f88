// Reads through a stream: a name may be a link, and may lead to anything.
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

// The first bytes of the pointer that a clone without Git LFS has in place of a large file.
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
                     ", which is not there: the directory is incomplete"));
  }
  // A directory opens and fails on the first read; a pipe would wait for somebody to write.
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": is no regular file"));
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
