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
#include "tests/service/wait_until.h"

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
  EXPECT_THAT(server_.Log(), HasSubstr("\"admin\":\"" + address_ + "\""));
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

TEST_F(AdminCommandTest, ThePortOfOperatorsServesNoClients) {
  ClientProcess client({"--server", address_, "models"});
  EXPECT_EQ(client.Wait(), 1);
  EXPECT_EQ(client.err(),
            "longstream: UNIMPLEMENTED: this listener does not serve the call; give --server the "
            "address in the server's `listen`\n");
}

TEST_F(AdminCommandTest, SetsListsAndDeletesAliases) {
  EXPECT_EQ(Admin({"alias", "list"}), "no aliases\n");
  Admin({"load", "tiny"});
  Admin({"load", "new", "--directory", "tiny-v2"});
  EXPECT_EQ(Admin({"alias", "set", "chat", "tiny=90", "new=10"}),
            "chat: tiny=90 new=10  [changed at run time]\n");
  EXPECT_EQ(Admin({"alias", "list"}), "chat: tiny=90 new=10  [changed at run time]\n");
  EXPECT_THAT(Admin({"--json", "alias", "list"}), HasSubstr("\"weight\": 90"));
  EXPECT_EQ(Admin({"alias", "set", "trial", "tiny=1", "--shadow", "new=0.25"}),
            "trial: tiny=1, shadow new=0.25  [changed at run time]\n");
  for (const char* shadow : {"new", "new=", "=1", "new=2", "new=nan"}) {
    EXPECT_THAT(Admin({"alias", "set", "trial", "tiny=1", "--shadow", shadow}, 2),
                HasSubstr("--shadow"));
  }
  Admin({"alias", "delete", "trial"});
  const std::vector<std::string> turn = {
      "--server", server_.address(), "generate", "-m", "chat", "-n", "2", "x"};
  EXPECT_THAT(RunClient(turn).err,
              testing::ContainsRegex(" tokens on chat -> (tiny|new), first after "));
  client::Connection connection(server_.address());
  v1::Session session = connection.Open("chat");
  while (session.model() != "tiny") session = connection.Open("chat");  // the other model will go
  EXPECT_EQ(session.alias(), "chat");
  ClientProcess models({"models", "--server", server_.address()});
  EXPECT_EQ(models.Wait(), 0) << models.err();
  EXPECT_THAT(models.out(), AllOf(HasSubstr("ALIAS"), HasSubstr("chat         tiny=90 new=10")));
  EXPECT_THAT(Admin({"unload", "new"}, 1), HasSubstr("an arm of alias chat"));
  EXPECT_THAT(Admin({"alias", "set", "chat", "none=1"}, 1), HasSubstr("no model 'none'"));
  EXPECT_THAT(Admin({"alias", "set", "chat", "tiny"}, 2), HasSubstr("MODEL=WEIGHT"));
  EXPECT_THAT(Admin({"alias", "set", "chat", "tiny=1.5"}, 2),
              HasSubstr("expected a whole number from 0 to 1000000, found '1.5'"));
  EXPECT_EQ(Admin({"alias", "delete", "chat"}), "chat: deleted\n");
  EXPECT_THAT(Admin({"alias", "delete", "chat"}, 1), HasSubstr("NOT_FOUND"));
  EXPECT_EQ(Admin({"unload", "new"}), "new: unloaded\n");
  EXPECT_EQ(connection.Get(session.session_id()).alias(), "chat");
  EXPECT_THAT(server_.Log(), AllOf(HasSubstr("/longstream.admin.v1.Admin/SetAlias"),
                                   HasSubstr("/longstream.admin.v1.Admin/DeleteAlias")));
  EXPECT_EQ(server_.Stop(), 0);
}

TEST_F(AdminCommandTest, RoutesAreMeasuredAndExplained) {
  Admin({"load", "tiny"});
  Admin({"load", "new", "--directory", "tiny-v2"});
  EXPECT_THAT(Admin({"alias", "route", "auto", "tiny", "new", "--max-ttft", "1000"}),
              HasSubstr("auto: route tiny"));
  // The models are loaded already, so they are measured while they have no turn.
  EXPECT_TRUE(WaitUntil([&] {
    return Admin({"alias", "list"}) == "auto: route tiny new  [changed at run time]\n";
  }));
  EXPECT_THAT(Admin({"--json", "alias", "list"}), HasSubstr("\"costs\""));
  ClientProcess plan({"plan", "--admin", address_, "--sessions", "100", "--turns-per-minute", "10",
                      "--session-tokens", "2000", "--cache-gib", "1"});
  EXPECT_EQ(plan.Wait(), 0) << plan.err();
  EXPECT_THAT(plan.out(), AllOf(HasSubstr("tiny: "), HasSubstr("sessions a GiB"),
                                HasSubstr("and one that may leave")));
  ClientProcess too_long({"plan", "--admin", address_, "--sessions", "100", "--turns-per-minute",
                          "10", "--session-tokens", "2000000000", "--cache-gib", "1"});
  EXPECT_EQ(too_long.Wait(), 1);
  EXPECT_THAT(too_long.err(),
              HasSubstr("tiny: --session-tokens: 2000000000: a session has at most"));
  ClientProcess generate(
      {"generate", "--server", server_.address(), "-m", "auto", "-n", "3", "hello"});
  EXPECT_EQ(generate.Wait(), 0) << generate.err();
  EXPECT_THAT(generate.err(), HasSubstr("route: tiny is the first arm within the budgets for 5 "
                                        "prompt tokens and 3 to generate: "));
  ClientProcess models({"models", "--server", server_.address()});
  EXPECT_EQ(models.Wait(), 0) << models.err();
  EXPECT_THAT(models.out(), HasSubstr("auto         route tiny new"));
  EXPECT_THAT(Admin({"alias", "route", "auto", "none"}, 1), HasSubstr("no model 'none'"));
  EXPECT_THAT(Admin({"alias", "route", "auto", "tiny", "--max-ttft", "86401"}, 2),
              HasSubstr("--max-ttft"));
  EXPECT_THAT(server_.Log(), HasSubstr("costs of model tiny were measured"));
  EXPECT_EQ(server_.Stop(), 0);
}

TEST_F(AdminCommandTest, NeedsAnAddress) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"admin", "models"},
        {"plan", "--sessions", "3", "--turns-per-minute", "1", "--session-tokens", "2000",
         "--cache-gib", "1"}}) {
    ClientProcess client(command);
    EXPECT_EQ(client.Wait(), 2) << command[0];
    EXPECT_THAT(client.err(), HasSubstr("--admin or the variable LONGSTREAM_ADMIN is required"));
  }
}

}  // namespace
}  // namespace longstream
