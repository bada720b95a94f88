// Help, versions and errors of usage of the command. No server is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/processes/client_process.h"

namespace longstream {
namespace {

using testing::HasSubstr;
using testing::Not;

using Strings = std::vector<std::string>;

TEST(UsageTest, Version) {
  const ClientRun run = RunClient({"--version"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "longstream " LONGSTREAM_VERSION "\n");
}

TEST(UsageTest, AWordThatIsNoSubcommandIsNamed) {
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"foo"}, "no subcommand 'foo'; there are: generate, chat, models, sessions, "},
      {{"sessions", "foo"}, "no subcommand 'foo' of sessions; there are: list, close, show, "},
      {{"admin", "--admin", "unix:/x", "foo"}, "no subcommand 'foo' of admin; there are: load, "},
      {{"admin", "--admin", "unix:/x", "alias", "foo"},
       "no subcommand 'foo' of alias; there are: set, "},
      {{}, "a subcommand is missing; there are: generate, chat, "},
      {{"store"}, "a subcommand of store is missing; there are: check, "},
      {{"models", "a", "b"}, "b"}};
  for (const auto& [command, error] : cases) {
    const ClientRun run = RunClient(command);
    EXPECT_EQ(run.exit_code, 2) << testing::PrintToString(command);
    EXPECT_THAT(run.err, HasSubstr(error));
  }
}

TEST(UsageTest, ASubcommandDoesNotShowTheExamplesOfItsParent) {
  for (const Strings& command :
       {Strings{"admin", "load"}, Strings{"admin", "alias", "set"}, Strings{"store", "check"},
        Strings{"token", "new"}, Strings{"sessions", "show"}, Strings{"sessions", "rewind"},
        Strings{"eval", "passkey"}}) {
    Strings all = command;
    all.push_back("--help");
    const ClientRun run = RunClient(all);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, Not(HasSubstr("longstream bench -m dense"))) << run.out;
  }
  EXPECT_THAT(RunClient({"--help"}).out, HasSubstr("longstream bench -m dense"));
}

// gRPC would take port 443, or look for a host with such a name.
TEST(UsageTest, AnAddressHasAPortOrAScheme) {
  for (const char* address : {"localhost", "localhost:", ":50051", "http://localhost:50051",
                              "/run/longstream.sock", "host:name", "host:0", "host:65536"}) {
    const ClientRun run = RunClient({"--server", address, "models"});
    EXPECT_EQ(run.exit_code, 2) << address;
    EXPECT_THAT(run.err, HasSubstr(std::string("--server: '") + address +
                                   "' is no address; expected host:port"));
  }
  const ClientRun admin = RunClient({"admin", "--admin", "/path/admin.sock", "models"});
  EXPECT_EQ(admin.exit_code, 2);
  EXPECT_THAT(admin.err, HasSubstr("--admin: '/path/admin.sock' is no address"));
  for (const char* address : {"127.0.0.1:1", "[::1]:1", "unix:/nonexistent", "ipv4:127.0.0.1:1"}) {
    EXPECT_EQ(RunClient({"--server", address, "models"}).exit_code, 3) << address;
  }
}

TEST(UsageTest, ErrorsNameTheOption) {
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"generate", "-m", "dense"}, "prompt: give a prompt, --file or --tokens"},
      {{"--ca", "/nowhere", "models"}, "--ca: /nowhere cannot be read"},
      {{"sessions", "import", "/nowhere"}, "file: /nowhere cannot be read: No such file"},
      {{"generate", "--ttl", "5x", "text"},
       "--ttl: expected a time above 0, such as 720h or 30m, found '5x'"},
      {{"chat", "--ttl", "0s"}, "--ttl: expected a time above 0, such as 720h or 30m, found '0s'"},
      {{"generate", "--ttl", "1h", "--session", "x", "text"}, "--session excludes --ttl"},
      {{"token", "new", "--name", "a b"}, "--name: 'a b' has a space or a '#'"},
      {{"token", "new", "--name", "a", "--expires", "5x"},
       "--expires: expected a time such as 2027-01-31T00:00:00Z, or a duration such as 720h, "
       "found '5x'"}};
  for (const auto& [command, error] : cases) {
    const ClientRun run = RunClient(command);
    EXPECT_EQ(run.exit_code, 2) << error << run.err;
    EXPECT_THAT(run.err, HasSubstr(error));
  }
}

}  // namespace
}  // namespace longstream
