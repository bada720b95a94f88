// Files with a token.
#include "service/security/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::StartsWith;

constexpr char kToken[] = "lst_0123456789ab";  // the shortest one

TEST(TokenFileTest, HoldsOneToken) {
  EXPECT_EQ(*TokenIn(std::string(kToken) + "\n", "f"), kToken);
  EXPECT_EQ(*TokenIn(std::string("  ") + kToken, "f"), kToken);
  EXPECT_EQ(*TokenIn(std::string(4096, 'a'), "f"), std::string(4096, 'a'));
  for (const std::string& wrong :
       {std::string(), std::string("\n"), std::string("lst_0123456789a"),
        std::string("lst_01234 56789ab"), std::string("lst_01234\n56789ab"),
        std::string("lst_01234\0 56789ab", 18), std::string("lst_0123456caf\xc3\xa9"),
        std::string(4097, 'a')}) {
    const absl::StatusOr<std::string> token = TokenIn(wrong, "f");
    EXPECT_THAT(
        std::string(token.status().message()),
        StartsWith("f: expected one line with a token, of 16 to 4096 printable characters without "
                   "spaces, found "));
    EXPECT_EQ(token.status().message().find("lst_"), std::string::npos) << "it is a secret";
  }
}

TEST(TokenFileTest, IsRead) {
  const TemporaryDirectory folder;
  const std::string path = folder.string() + "/token";
  EXPECT_FALSE(ReadTokenFile(path).ok());
  std::ofstream(path) << kToken << "\n";
  chmod(path.c_str(), 0640);
  EXPECT_EQ(*ReadTokenFile(path), kToken);
  CurrentToken current("one");
  EXPECT_EQ(current.Get(), "one");
  current.Set("two");
  EXPECT_EQ(current.Get(), "two");
}

TEST(TokenFileTest, OthersMustNotReadOrChangeIt) {
  const TemporaryDirectory folder;
  const std::string path = folder.string() + "/token";
  std::ofstream(path) << kToken << "\n";
  for (const mode_t mode : {0644, 0604, 0602, 0620, 0601, 0660}) {
    chmod(path.c_str(), mode);
    const absl::Status status = ReadTokenFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_NE(status.message().find("chmod 600 " + path), std::string::npos) << status;
  }
  chmod(path.c_str(), 0400);
  EXPECT_TRUE(ReadTokenFile(path).ok());
}

}  // namespace
}  // namespace longstream
