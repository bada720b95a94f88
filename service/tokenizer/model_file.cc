// Reading through a stream: a name may be a link, and what it leads to anything.
#include "service/tokenizer/model_file.h"

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream {

absl::StatusOr<std::optional<std::string>> FindModelFile(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  absl::StatusOr<std::string> text = ReadModelFile(path);
  if (!text.ok()) return text.status();
  return *std::move(text);
}

absl::StatusOr<std::string> ReadModelFile(const std::filesystem::path& path) {
  std::error_code ignored;
  std::ostringstream text;
  // A directory opens and fails on the first read; a pipe would wait for somebody to write.
  bool is_read = std::filesystem::is_regular_file(path, ignored);
  if (is_read) {
    std::ifstream file(path, std::ios::binary);
    text << file.rdbuf();
    is_read = file.is_open() && !text.bad();
  }
  if (!is_read) return absl::InvalidArgumentError(absl::StrCat(path.string(), ": cannot be read"));
  return std::move(text).str();
}

}  // namespace longstream
