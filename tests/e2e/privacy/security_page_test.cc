// The commands at the top of docs/security.md, as a reader runs them one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

class SecurityPageTest : public testing::Test {
 protected:
  SecurityPageTest() {
    std::ifstream file(LONGSTREAM_SOURCE_DIR "/docs/security.md");
    page_.assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::create_directory_symlink(LONGSTREAM_SOURCE_DIR "/models",
                                              directory_.path() / "models");
  }

  // The text behind the first `begin`, up to `end`.
  static std::string Between(const std::string& text, const std::string& begin,
                             const std::string& end) {
    const size_t found = text.find(begin);
    if (found == std::string::npos) throw std::runtime_error("there is no " + begin);
    const size_t start = found + begin.size();
    return text.substr(start, text.find(end, start) - start);
  }
  // The line of the page that begins with this command.
  std::string Command(const std::string& begin) const {
    return begin + Between(page_, "\n    " + begin, "\n");
  }
  // A script that runs the commands in the directory, with the programs that were built.
  std::string Script(const std::string& commands) const {
    return "set -e; cd '" + directory_.string() + "'; PATH=" LONGSTREAM_BINARY_DIR "/bin:$PATH\n" +
           commands;
  }
  // Runs the commands, which must succeed, and returns their output.
  std::string Run(const std::string& commands) const {
    const std::string script = directory_.Write("script", Script(commands));
    FILE* const pipe = popen(("bash '" + script + "' 2>&1").c_str(), "r");
    std::string output;
    std::array<char, 4096> piece;
    while (const size_t size = fread(piece.data(), 1, piece.size(), pipe)) {
      output.append(piece.data(), size);
    }
    EXPECT_EQ(pclose(pipe), 0) << commands << "\n" << output;
    return output;
  }

  std::string page_;
  const TemporaryDirectory directory_;
};

TEST_F(SecurityPageTest, TheCommandsSetUpAServer) {
  Run("openssl req" + Between(page_, "```\nopenssl req", "```"));
  const std::string printed = Run(Between(page_, "```sh\n", "```"));
  const std::string token = "lst_" + Between(printed, "lst_", "\n");
  directory_.Write("token", token);
  directory_.WriteSecret("credentials", "token " + Between(printed, "\ntoken ", "\n") + "\n");
  EXPECT_EQ(printed.find(token, printed.find(token) + 1), std::string::npos)
      << "the token is printed once";
  directory_.Write("server.yaml", Between(page_, "```yaml\n", "```"));

  // ServerProcess adds options for free ports.
  ServerProcess server("/bin/bash",
                       {"-c", Script("exec " + Command("longstream-server ") + " \"$@\""), "bash"});
  std::string command = Command("longstream --server ");
  const std::string address = "localhost:50051";
  ASSERT_THAT(command, HasSubstr(address));
  command.replace(command.find(address), address.size(),
                  "localhost:" + std::to_string(server.port()));
  EXPECT_THAT(Run(command), HasSubstr("tiny"));
  EXPECT_EQ(server.Stop(), 0) << server.Log();
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "sessions/log.db")) << "the store";
}

}  // namespace
}  // namespace longstream
