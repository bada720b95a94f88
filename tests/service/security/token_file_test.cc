// Files with a token.
#include "service/security/token_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

TEST(TokenFileTest, HoldsOneToken) {
  EXPECT_EQ(*TokenIn("lst_1\n", "f"), "lst_1");
  EXPECT_EQ(*TokenIn("  lst_1", "f"), "lst_1");
  EXPECT_EQ(*TokenIn(std::string(4096, 'a'), "f"), std::string(4096, 'a'));
  for (const std::string& wrong :
       {std::string(), std::string("\n"), std::string("a b"), std::string("a\nb"),
        std::string("a\0b", 3), std::string("caf\xc3\xa9"), std::string(4097, 'a')}) {
    const absl::StatusOr<std::string> token = TokenIn(wrong, "f");
    EXPECT_EQ(token.status().message(),
              "f: expected one line with a token, of 1 to 4096 printable characters without "
              "spaces");
  }
}

TEST(TokenFileTest, IsRead) {
  const TemporaryDirectory folder;
  const std::string path = folder.string() + "/token";
  EXPECT_FALSE(ReadTokenFile(path).ok());
  std::ofstream(path) << "secret\n";
  EXPECT_EQ(*ReadTokenFile(path), "secret");
  CurrentToken current("one");
  EXPECT_EQ(current.Get(), "one");
  current.Set("two");
  EXPECT_EQ(current.Get(), "two");
}

}  // namespace
}  // namespace longstream
