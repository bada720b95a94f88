// Checks that a file holds a token.
#include "service/security/token_file.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "service/security/watched_files.h"

namespace longstream {

absl::StatusOr<std::string> TokenIn(const std::string& contents, const std::string& path) {
  constexpr size_t kLeastBytes = 16;  // nobody finds so long a random text by trying
  constexpr size_t kMostBytes = 4096;
  std::string token(absl::StripAsciiWhitespace(contents));
  const bool printable = std::all_of(token.begin(), token.end(),
                                     [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (token.size() >= kLeastBytes && token.size() <= kMostBytes && printable) return token;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected one line with a token, of ", kLeastBytes, " to ", kMostBytes,
                   " printable characters without spaces, found ", token.size(), " characters"));
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  const absl::StatusOr<FileContents> contents = ReadFiles({path}, FileUsers::kOwner);
  if (!contents.ok()) return contents.status();
  return TokenIn(contents->front(), path);
}

}  // namespace longstream
