// Reads files of a model directory. A name may be a link to anything, so the kind of file is
// checked first.
#include "service/tokenizer/files/model_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
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

absl::Status ReadError(const fs::path& path) {
  return absl::InvalidArgumentError(absl::StrCat(
      path.string(),
      ": cannot be read: ", std::error_code(errno, std::generic_category()).message()));
}

// Reads a regular file, unless it is too large. The file may grow meanwhile.
absl::StatusOr<std::string> ReadWhole(const fs::path& path) {
  // Does not wait for the writer of a pipe.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return ReadError(path);
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat found {};
  if (fstat(file, &found) != 0) return ReadError(path);
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": is not a regular file"));
  }
  const auto too_large = [&](uint64_t bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": ", bytes, " bytes, expected at most ", kMaxModelFileBytes));
  };
  const auto size = static_cast<uint64_t>(found.st_size);
  if (size > kMaxModelFileBytes) return too_large(size);
  std::string text(static_cast<size_t>(size) + 1, '\0');  // one more, to notice the end
  size_t filled = 0;
  while (true) {
    const ssize_t got = read(file, text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadError(path);
    filled += static_cast<size_t>(got);
    if (filled > kMaxModelFileBytes) return too_large(filled);
    if (got == 0) break;
    if (filled == text.size()) text.resize(std::min(2 * filled, kMaxModelFileBytes + 1));
  }
  text.resize(filled);
  return text;
}

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
  // Before it is opened: a socket, or a directory without rights, would give another error.
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": is not a regular file"));
  }
  absl::StatusOr<std::string> text = ReadWhole(path);
  if (!text.ok()) return text.status();
  if (absl::StartsWith(*text, kLfsPointer)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": expected the file itself, found a pointer of Git LFS to it"));
  }
  return text;
}

}  // namespace longstream
