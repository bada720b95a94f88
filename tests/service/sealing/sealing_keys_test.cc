// The key file: its lines, and who may read it.
#include "service/sealing/sealing_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kDigits(64, '5');

absl::Status ParseStatus(const std::string& text) {
  return SealingKeys::Parse(text, "keys.txt").status();
}

TEST(SealingKeysTest, TheFirstKeySealsAndAllAreFound) {
  const auto keys = SealingKeys::Parse(
      "# made in May\n\n  new.key-2 \t" + std::string(62, 'a') + "Ff \r\nold_1 " + kDigits, "keys");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->first().id, "new.key-2");
  EXPECT_EQ((*keys)->first().bytes[0], 0xaa);
  EXPECT_EQ((*keys)->first().bytes[31], 0xff);
  ASSERT_NE((*keys)->Find("old_1"), nullptr);
  EXPECT_EQ((*keys)->Find("old_1")->bytes[7], 0x55);
  EXPECT_EQ((*keys)->Find("old"), nullptr);
}

TEST(SealingKeysTest, WrongLinesAreNamedAndKeysAreNot) {
  for (const std::string& line :
       {kDigits, "id " + kDigits.substr(1), "id " + kDigits + "5", std::string("id"),
        "id " + kDigits + " more", "seventeen-letters " + kDigits, "semi;colon " + kDigits,
        "a " + kDigits.substr(1) + "g", "a " + kDigits}) {
    const absl::Status status = ParseStatus("a " + kDigits + "\n" + line);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr("keys.txt: line 2: ")) << line;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("5555"))) << line;
  }
  for (const char* text : {"", "\n \n", "# " /* a comment */}) {
    EXPECT_THAT(std::string(ParseStatus(text).message()), HasSubstr("has no key")) << text;
  }
  std::string many;
  for (int i = 0; i < 101; ++i) many += std::to_string(i) + " " + kDigits + "\n";
  EXPECT_THAT(std::string(ParseStatus(many).message()), HasSubstr("line 101: there are more than"));
}

TEST(SealingKeysTest, AFileThatOthersMayReadOrChangeIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("keys", "a " + kDigits);
  for (const mode_t mode : {0600u, 0400u, 0440u, 0640u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(SealingKeys::Read(path, "--keys").ok()) << std::oct << mode;
  }
  for (const mode_t mode : {0604u, 0644u, 0620u, 0602u, 0601u, 0777u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const absl::Status status = SealingKeys::Read(path, "--keys").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << std::oct << mode;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600 " + path));
  }
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(std::string(SealingKeys::Read(path, "--keys").status().message()),
              HasSubstr(" is 644,"));
}

TEST(SealingKeysTest, ErrorsBeginWithTheKeyOrTheFlagThatNamesTheFile) {
  const TemporaryDirectory directory;
  for (const std::string name : {"store.keys", "--keys"}) {
    const std::string path = directory.Write("keys", "a wrong line");
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    EXPECT_THAT(std::string(SealingKeys::Read(path, name).status().message()),
                StartsWith(name + ": " + path + ": line 1: "));
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    EXPECT_THAT(std::string(SealingKeys::Read(path, name).status().message()),
                StartsWith(name + ": the mode of " + path));
    EXPECT_THAT(std::string(SealingKeys::Read("/no/file", name).status().message()),
                StartsWith(name + ": cannot open /no/file: "));
    EXPECT_THAT(std::string(SealingKeys::Read(directory.string(), name).status().message()),
                StartsWith(name + ": " + directory.string()));
  }
}

// Kubernetes mounts a secret as a link to a file.
TEST(SealingKeysTest, ALinkCountsAsItsFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("keys", "a " + kDigits), link = path + ".link";
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(SealingKeys::Read(link, "--keys").ok());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_FALSE(SealingKeys::Read(link, "--keys").ok());
}

TEST(SealingKeysTest, WhatIsNoSmallFileIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/keys";
  EXPECT_EQ(SealingKeys::Read(path, "--keys").status().code(), absl::StatusCode::kUnavailable);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(std::string(SealingKeys::Read(path, "--keys").status().message()),
              HasSubstr("regular file"))
      << "without waiting for a writer";
  EXPECT_THAT(std::string(SealingKeys::Read(directory.string(), "--keys").status().message()),
              HasSubstr("regular file"));
  const std::string large = directory.Write("large", std::string(70'000, '\n'));
  ASSERT_EQ(chmod(large.c_str(), 0600), 0);
  EXPECT_THAT(std::string(SealingKeys::Read(large, "--keys").status().message()),
              HasSubstr("the limit is"));
}

}  // namespace
}  // namespace longstream
