// Reading through a stream: a name may be a link, and what it leads to anything.
#include "service/tokenizer/model_file.h"

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream {

namespace fs = std::filesystem;

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
  std::ostringstream text;
  // A directory opens and fails on the first read; a pipe would wait for somebody to write.
  bool is_read = fs::is_regular_file(path, ignored);
  if (is_read) {
    std::ifstream file(path, std::ios::binary);
    text << file.rdbuf();
    is_read = file.is_open() && !text.bad();
  }
  if (!is_read) return absl::InvalidArgumentError(absl::StrCat(path.string(), ": cannot be read"));
  return std::move(text).str();
}

}  // namespace longstream
