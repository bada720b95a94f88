// The client programs in the README do what the README says.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

class ReadmeTest : public testing::Test {
 protected:
  ReadmeTest()
      : server_(kServerBinary, {"--model", "hypenet=" LONGSTREAM_SOURCE_DIR "/models/demo/hypenet",
                                "--model", "dense=" LONGSTREAM_SOURCE_DIR "/models/demo/dense"}),
        connection_(server_.address()) {
    for (const char* model : {"hypenet", "dense"}) {
      connection_.WaitUntilServing(model, std::chrono::seconds(60));
    }
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

  // A reader must see text, and not only blanks and newlines. Fewer characters would be an answer
  // that consists of little more than indentation.
  static void ExpectVisible(const std::string& text) {
    const auto visible = std::count_if(text.begin(), text.end(),
                                       [](unsigned char c) { return std::isgraph(c) != 0; });
    EXPECT_GE(visible, 10) << "'" << text << "'";
  }

  void ExpectNothingHeld() { EXPECT_TRUE(connection_.Sessions("").empty()); }

  ServerProcess server_;
  client::Connection connection_;
};

TEST_F(ReadmeTest, BothProgramsStreamTheSameText) {
  const std::string text = Run(README_PROGRAM);
  EXPECT_EQ(text.size(), 100u) << "a token of the demo models is a byte";
  ExpectVisible(text);
  ExpectNothingHeld();
  // Uses Debian's Python, because the build installs Python modules as Debian packages.
  EXPECT_EQ(
      Run("PYTHONPATH=" PYTHON_PACKAGE " /usr/bin/python3 " README_EXAMPLES "/readme_example.py"),
      text);
  ExpectNothingHeld();
}

// The commands leave the sampling to the model's defaults. Here they get seeds, so that the result
// is always the same.
TEST_F(ReadmeTest, TheCommandsShowText) {
  const std::string command = LONGSTREAM_BINARY_DIR "/bin/longstream --server " + server_.address();
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    const std::string options = std::string(" -n 100 --seed ") + seed;
    for (const char* model : {"hypenet", "dense"}) {
      ExpectVisible(Run(command + " generate -m " + model + options + " 'def main():'"));
    }
    ExpectVisible(Run("echo 'def main():' | " + command + " chat -m hypenet" + options));
  }
  ExpectNothingHeld();
}

}  // namespace
}  // namespace longstream
