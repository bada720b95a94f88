// Files with secrets: the server refuses those that others may read or change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string RowOf(const std::string& role) {
  return "token name=one role=" + role + " sha256=" + std::string(64, 'a') + "\n";
}

// Nothing listens on port 1, so no server starts, but it reads all files before it asks the
// database.
class SecretFilesTest : public testing::Test {
 protected:
  SecretFilesTest() {
    for (const auto& [name, contents] :
         {std::pair("credentials", RowOf("peer")), std::pair("password", std::string("hunter2\n")),
          std::pair("token", std::string(43, 'A'))}) {
      files_.WriteSecret(name, contents);
    }
    config_ = files_.Write(
        "server.yaml", "store: {url: 'postgresql://me@127.0.0.1:1/db', password_file: " +
                           Path("password") + "}\nsecurity: {credentials: " + Path("credentials") +
                           ", plaintext_tokens: true}\nfleet: {peer_listen: '127.0.0.1:0', " +
                           "token_file: " + Path("token") + "}\n");
  }

  std::string Path(const std::string& name) const { return files_.string() + "/" + name; }
  // The log of the server, or what --check-config prints.
  std::string Refusal(bool check) const {
    std::vector<std::string> arguments = {"-c",      "exec \"$@\" >&2", "bash",     kServerBinary,
                                          "--model", minimal_.Flag(),   "--config", config_};
    arguments.insert(arguments.end(), {"--listen", "127.0.0.1:0", "--metrics-listen", ""});
    if (check) arguments.push_back("--check-config");
    const ServerRun run = RunServer("/bin/bash", arguments);
    EXPECT_EQ(run.exit_code, 1) << run.log;
    EXPECT_THAT(run.log, Not(HasSubstr("hunter2")));
    return run.log;
  }

  const MinimalModelDirectory minimal_;
  const TemporaryDirectory files_;
  std::string config_;
};

TEST_F(SecretFilesTest, OthersMustNotUseThem) {
  for (const auto& [name, key] :
       {std::pair("credentials", "security.credentials"),
        std::pair("password", "store.password_file"), std::pair("token", "fleet.token_file")}) {
    const std::string error = "the mode of " + Path(name) + " is 644, so others may read or change";
    std::filesystem::permissions(Path(name), std::filesystem::perms{0644});
    EXPECT_THAT(Refusal(/*check=*/false), HasSubstr(std::string(key) + ": " + error));
    EXPECT_THAT(Refusal(/*check=*/true), HasSubstr(error));
    std::filesystem::permissions(Path(name), std::filesystem::perms{0440});
  }
  for (const bool check : {false, true}) {
    EXPECT_THAT(Refusal(check), HasSubstr("Connection refused")) << "all were read";
    EXPECT_THAT(Refusal(check), Not(HasSubstr("the mode of")));
  }
}

TEST_F(SecretFilesTest, ThePasswordIsTheFirstLine) {
  files_.Write("password", "\nhunter2\n");
  EXPECT_THAT(
      Refusal(/*check=*/false),
      HasSubstr("store.password_file: no password in the first line of " + Path("password")));
  std::filesystem::remove(Path("password"));
  EXPECT_THAT(Refusal(/*check=*/false), HasSubstr("store.password_file: " + Path("password") +
                                                  ": No such file or directory"));
}

}  // namespace
}  // namespace longstream
