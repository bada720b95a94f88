// Checks that a file holds a token, and that nobody else can read it.
#include "service/security/token_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longstream {
namespace {

// As for the files of keys: nobody but the owner, and readers of the group, can use the file.
absl::Status CheckMode(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the mode of ", path, ": ", std::strerror(errno)));
  }
  if ((found.st_mode & (S_IWGRP | S_IRWXO)) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("the mode of %s is %03o, so others may read or change it; run `chmod 600 %s`",
                      path, found.st_mode & 0777, path));
}

}  // namespace

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

absl::StatusOr<std::string> TokenOfFile(const absl::StatusOr<FileContents>& contents,
                                        const std::string& path) {
  if (!contents.ok()) return contents.status();
  if (absl::Status status = CheckMode(path); !status.ok()) return status;
  return TokenIn(contents->front(), path);
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  return TokenOfFile(ReadFiles({path}), path);
}

}  // namespace longstream
