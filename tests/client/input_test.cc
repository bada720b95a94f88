// Reading files that exist, and paths that cannot be read.
#include "client/commands/input.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>

#include "client/read_file.h"
#include "tests/temporary_directory.h"

namespace longstream::client {
namespace {

std::string ErrorOf(const std::string& path) {
  try {
    ReadFile(path, "--file");
  } catch (const CLI::ValidationError& error) {
    return error.what();
  }
  return "";
}

TEST(ReadFileTest, GivesEveryByte) {
  const TemporaryDirectory directory;
  const std::string content("a\0b\r\n\xff", 6);
  directory.Write("f", content);
  EXPECT_EQ(ReadFile(directory.string() + "/f", "--file"), content);
}

TEST(ReadFileTest, RefusesWhatIsNoFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.string();
  EXPECT_EQ(ErrorOf(path), "--file: " + path + " is a directory");
  EXPECT_EQ(ErrorOf(path + "/none"), "--file: " + path + "/none cannot be read");
  EXPECT_THROW(ReadFile(path), std::invalid_argument);
  EXPECT_THROW(ReadFile(path + "/none"), std::invalid_argument);
}

}  // namespace
}  // namespace longstream::client
