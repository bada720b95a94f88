// The client programs in the README do what the README says.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "client/connection.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

class ReadmeTest : public testing::Test {
 protected:
  ReadmeTest()
      : server_(LONGSTREAM_BINARY_DIR "/bin/longstream-server",
                {"--model", "hypenet=" LONGSTREAM_SOURCE_DIR "/models/demo/hypenet"}),
        connection_(server_.address()) {
    connection_.WaitUntilServing("hypenet", std::chrono::seconds(60));
    setenv("LONGSTREAM_ADDRESS", server_.address().c_str(), 1);
  }

  // Runs a command, which must end with exit code 0, and returns its output.
  static std::string Run(const std::string& command) {
    const auto close = [](FILE* pipe) { EXPECT_EQ(pclose(pipe), 0); };
    const std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
    std::string output;
    std::array<char, 4096> piece;
    while (const size_t size = fread(piece.data(), 1, piece.size(), pipe.get())) {
      output.append(piece.data(), size);
    }
    return output;
  }

  void ExpectNothingHeld() { EXPECT_TRUE(connection_.Sessions("").empty()); }

  ServerProcess server_;
  client::Connection connection_;
};

TEST_F(ReadmeTest, BothProgramsStreamTheSameText) {
  const std::string text = Run(README_PROGRAM);
  EXPECT_EQ(text.size(), 100u) << "a token of the demo models is a byte";
  ExpectNothingHeld();
  // Uses Debian's Python, because the build installs Python modules as Debian packages.
  EXPECT_EQ(Run("/usr/bin/python3 " README_EXAMPLES "/readme_example.py"), text);
  ExpectNothingHeld();
}

}  // namespace
}  // namespace longstream
