// `longstream admin` against a server that begins without a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AdminCommandTest : public testing::Test {
 protected:
  AdminCommandTest() {
    for (const char* name : {"tiny", "tiny-v2"}) {
      std::filesystem::copy(model_.path(), roots_.path() / name,
                            std::filesystem::copy_options::recursive);
    }
  }

  // Runs the command, and checks its exit code.
  std::string Admin(std::vector<std::string> arguments, int exit_code = 0) {
    arguments.insert(arguments.begin(), {"admin", "--admin", address_});
    ClientProcess client(arguments);
    EXPECT_EQ(client.Wait(), exit_code) << client.err();
    return client.out() + client.err();
  }

  const MinimalModelDirectory model_;
  const TemporaryDirectory roots_;
  const TemporaryDirectory sockets_;
  const std::string address_ = "unix:" + sockets_.string() + "/admin.sock";
  ServerProcess server_{
      kServerBinary,
      {"--admin-listen", address_, "--config",
       sockets_.Write("server.yaml", "admin: {model_directories: [" + roots_.string() + "]}\n")}};
};

TEST_F(AdminCommandTest, LoadsSwapsAndUnloads) {
  EXPECT_EQ(Admin({"load", "tiny"}),
            "tiny version 1: LOADING\ntiny version 1: WARMING\ntiny version 1: READY\n");
  client::Connection connection(server_.address());
  const std::string session = connection.Open("tiny").session_id();
  EXPECT_THAT(Admin({"swap", "tiny", "--directory", "tiny-v2"}),
              HasSubstr("tiny version 2: READY"));
  EXPECT_THAT(Admin({"models"}), AllOf(HasSubstr("READY"), HasSubstr("DRAINING"),
                                       HasSubstr("tiny-v2"), HasSubstr("minimal")));
  EXPECT_THAT(Admin({"load", "tiny"}, 1), HasSubstr("ALREADY_EXISTS"));
  EXPECT_THAT(Admin({"load", "other", "--directory", ".."}, 1), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_EQ(Admin({"unload", "tiny", "--grace", "1.5"}), "tiny: unloaded\n");
  EXPECT_THAT(Admin({"--json", "models"}), Not(HasSubstr("tiny")));
  EXPECT_THROW(connection.Open("tiny"), client::CallError);
  EXPECT_THAT(server_.Log(), AllOf(HasSubstr("/longstream.admin.v1.Admin/SwapModel"),
                                   HasSubstr("unix-socket"), HasSubstr("model_gone")));
  EXPECT_EQ(server_.Stop(), 0);
}

TEST_F(AdminCommandTest, ThePortOfClientsServesNoOperators) {
  ClientProcess client({"admin", "--admin", server_.address(), "models"});
  EXPECT_EQ(client.Wait(), 1);
  EXPECT_THAT(client.err(), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("admin.listen")));
}

TEST_F(AdminCommandTest, NeedsAnAddress) {
  ClientProcess client({"admin", "models"});
  EXPECT_EQ(client.Wait(), 2);
  EXPECT_THAT(client.err(), HasSubstr("--admin"));
}

}  // namespace
}  // namespace longstream
