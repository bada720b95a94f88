// A server with a store: what it says about the directory, and the commands that work on its files.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/connection.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "service/sessions/store/sqlite/database.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};

class ServerStoreTest : public testing::Test {
 protected:
  std::vector<std::string> Arguments() const {
    return {"--model", minimal_.Flag(), "--store", store_};
  }
  // A server that must not start, and its log.
  std::string ErrorOfStart() const {
    std::vector<std::string> arguments = Arguments();
    arguments.insert(arguments.end(), {"--listen", "127.0.0.1:0", "--metrics-listen", ""});
    const ServerRun run = RunServer(kServerBinary, arguments);
    EXPECT_EQ(run.exit_code, 1) << run.log;
    EXPECT_THAT(run.log, HasSubstr("\"event\":\"start_failed\""));
    return run.log;
  }
  // The output of --check-config.
  std::string Checked(int exit_code) const {
    std::vector<std::string> all = {"-c", "exec \"$@\" >&2", "bash", kServerBinary,
                                    "--check-config"};
    for (const std::string& argument : Arguments()) all.push_back(argument);
    const ServerRun run = RunServer("/bin/bash", all);
    EXPECT_EQ(run.exit_code, exit_code) << run.log;
    return run.log;
  }
  // A store with one session and a turn that no session can return to.
  void MakeStore() const {
    const auto made = store::SqliteStore::Open(store_, {});
    ASSERT_TRUE(made.ok()) << made.status();
    const store::SessionRow row = store::NewSession(7);
    ASSERT_TRUE(store::ApplyOne(**made, store::OpenSession{row}).ok());
    ASSERT_NE(store::CommitOne(**made, row.key, 1, 10), store::kNoTurn);
    const store::MoveHead rewind = {store::FenceOf(**made, row.key), store::kNoTurn, store::At(3)};
    ASSERT_TRUE(store::ApplyOne(**made, rewind).ok());
  }
  void Sql(const char* sql) const {
    const auto database = store::SqliteDatabase::Open(store_ + "/log.db", "");
    ASSERT_TRUE(database.ok() && (*database)->Execute(sql).ok());
  }

  const MinimalModelDirectory minimal_;
  const TemporaryDirectory directory_;
  const std::string store_ = directory_.string() + "/store";
};

TEST_F(ServerStoreTest, OneServerOpensItAndSaysSo) {
  EXPECT_THAT(Checked(0), HasSubstr("store: " + store_ + "\n  it will be made\n"));
  EXPECT_FALSE(std::filesystem::exists(store_)) << "--check-config makes nothing";
  ServerProcess server(kServerBinary, Arguments());
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"store_opened\",\"directory\":\"" + store_));
  EXPECT_THAT(ErrorOfStart(), HasSubstr("another process uses " + store_));
  EXPECT_THAT(Checked(0), HasSubstr("it has 0 sessions")) << "also while a server uses it";

  const std::string metrics = Scrape(server.metrics_port());
  EXPECT_THAT(metrics, HasSubstr("\nlongstream_store_state 0\n"));
  EXPECT_THAT(metrics, HasSubstr("\nlongstream_store_commit_seconds_count 0\n"));
  EXPECT_THAT(metrics, testing::ContainsRegex("\nlongstream_store_bytes\\{kind=\"log\"\\} [1-9]"));
  EXPECT_THAT(metrics, HasSubstr("\nlongstream_store_bytes{kind=\"wal\"} "));
  EXPECT_THAT(metrics, HasSubstr("\nlongstream_store_bytes{kind=\"segments\"} "));

  const auto stub = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  request.set_service("longstream.store");
  EXPECT_TRUE(stub->Check(&context, request, &response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(server.Stop(), 0) << server.Log();
}

TEST_F(ServerStoreTest, TheCommandNamesATtlAndShowsIt) {
  ServerProcess server(kServerBinary, Arguments());
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.end(), {"--server", server.address()});
    ClientRun ran = RunClient(command);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.out;
  };
  run({"generate", "--keep", "--ttl", "48h", "-n", "2", "text"});
  ASSERT_EQ(connection.Sessions("").size(), 1u);
  const std::string named = connection.Sessions("")[0].session_id();
  EXPECT_THAT(run({"sessions", "show", named}), HasSubstr("ends after 48h without a turn\n"));
  EXPECT_THAT(run({"--json", "sessions", "show", named}), HasSubstr("\"172800s\""));
  const std::string other = connection.Open("").session_id();
  EXPECT_THAT(run({"sessions", "show", other}), HasSubstr("ends after 720h without a turn\n"));
}

TEST_F(ServerStoreTest, ErrorsOfTheDirectoryNameIt) {
  std::ofstream(store_) << "a file";
  EXPECT_THAT(ErrorOfStart(), HasSubstr(store_ + "/LOCK: Not a directory"));
  EXPECT_THAT(Checked(1), HasSubstr("  error: store: open " + store_ + ": Not a directory"));
  std::filesystem::remove(store_);
  MakeStore();
  EXPECT_THAT(Checked(0), HasSubstr("it has 1 sessions"));
  Sql("UPDATE store SET min_reader = 9");
  for (const std::string& error : {ErrorOfStart(), Checked(1)}) {
    EXPECT_THAT(error, HasSubstr("min_reader is 9"));
    EXPECT_THAT(error, HasSubstr(store_));
  }
  std::ofstream(store_ + "/log.db") << std::string(5000, 'x');
  for (const std::string& error : {ErrorOfStart(), Checked(1)}) {
    EXPECT_THAT(error, HasSubstr("file is not a database"));
    EXPECT_THAT(error, HasSubstr(store_));
  }
  std::filesystem::remove(store_ + "/log.db");
  EXPECT_THAT(Checked(1), HasSubstr("/log.db: No such file or directory"));
  EXPECT_THAT(ErrorOfStart(), HasSubstr("is missing or empty"));
}

TEST_F(ServerStoreTest, ADirectoryThatCannotBeMadeIsAnError) {
  const ServerRun run = RunServer(kServerBinary, {"--model", minimal_.Flag(), "--store",
                                                  "/proc/store", "--metrics-listen", ""});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.log, HasSubstr("make the directory /proc/store"));
  const ServerRun url = RunServer(
      kServerBinary, {"--model", minimal_.Flag(), "--store", "mysql://me:secret@host/db"});
  EXPECT_EQ(url.exit_code, 2);
  EXPECT_THAT(url.log, HasSubstr("store.url: expected a directory or postgresql://..., found"));
  EXPECT_THAT(url.log, testing::Not(HasSubstr("secret")));
}

// Nothing listens on port 1.
TEST_F(ServerStoreTest, NoMessageHasThePasswordOfADatabase) {
  const std::string url = "postgresql://me:hunter2@127.0.0.1:1/db";
  std::vector<std::string> arguments = {"--model", minimal_.Flag(),    "--store",
                                        url,       "--metrics-listen", ""};
  const ServerRun run = RunServer(kServerBinary, arguments);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.log, HasSubstr("Connection refused"));
  EXPECT_THAT(run.log, HasSubstr("postgresql://me@127.0.0.1:1/db"));
  EXPECT_THAT(run.log, testing::Not(HasSubstr("hunter2")));
  arguments.push_back("--check-config");
  const ServerRun checked = RunServer(kServerBinary, arguments);
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.log, testing::Not(HasSubstr("hunter2")));
  for (const char* const name : {"check", "gc", "backup"}) {
    const std::string command = name;
    std::vector<std::string> words = {"store", command, url};
    if (command == "backup") words.push_back(store_);
    const ClientRun refused = RunClient(words);
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(refused.err, HasSubstr(command == "backup" ? "pg_dump" : "Connection refused"));
    EXPECT_THAT(refused.err, testing::Not(HasSubstr("hunter2")));
  }
}

TEST_F(ServerStoreTest, TheLogTellsWhichTurnIsDamaged) {
  v1::GenerateRequest request;
  request.mutable_input()->set_text("abc");
  request.set_max_tokens(5);
  {
    ServerProcess server(kServerBinary, Arguments());
    client::Connection connection(server.address());
    connection.WaitUntilServing("m", kPatience);
    request.set_session_id(connection.Open("m").session_id());
    connection.Collect(request);
    EXPECT_EQ(server.Stop(), 0) << server.Log();
  }
  Sql("UPDATE turns SET result = x'00'");
  ServerProcess server(kServerBinary, Arguments());
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kPatience);
  try {
    connection.Collect(request);
    ADD_FAILURE() << "the turn's result is damaged";
  } catch (const client::CallError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("DATA_LOSS: "));
  }
  EXPECT_THAT(Scrape(server.metrics_port()), HasSubstr("\nlongstream_sessions_lost_total 1\n"));
  EXPECT_EQ(server.Stop(), 0);
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"session_lost\",\"request_id\":\""));
  EXPECT_THAT(server.Log(), HasSubstr("\"method\":\"/longstream.v1.Longstream/Generate\",\"error\":"
                                      "\"store: turn "));
}

TEST_F(ServerStoreTest, TheCommandsCheckCopyAndShrinkIt) {
  MakeStore();
  const std::string backup = directory_.string() + "/backup";
  {
    ServerProcess server(kServerBinary, Arguments());
    const ClientRun check = RunClient({"store", "check", store_});
    EXPECT_EQ(check.exit_code, 0) << check.err;
    EXPECT_EQ(check.out, "no damage found\n");
    const ClientRun copied = RunClient({"store", "backup", store_, backup});
    EXPECT_EQ(copied.exit_code, 0) << copied.err;
    const ClientRun again = RunClient({"store", "backup", store_, backup});
    EXPECT_EQ(again.exit_code, 1);
    EXPECT_THAT(again.err, HasSubstr(backup + " is not empty, it has log.db"));
    const ClientRun gc = RunClient({"store", "gc", store_});
    EXPECT_EQ(gc.exit_code, 1);
    EXPECT_THAT(gc.err, HasSubstr("another process uses " + store_));
    EXPECT_EQ(server.Stop(), 0);
  }
  const ClientRun gc = RunClient({"--json", "store", "gc", store_});
  EXPECT_EQ(gc.exit_code, 0) << gc.err;
  EXPECT_THAT(gc.out, HasSubstr("\"turns\":1"));
  const auto store = store::SqliteStore::Open(store_, {});
  const auto restored = store::SqliteStore::Open(backup, {});
  ASSERT_TRUE(store.ok() && restored.ok()) << store.status() << restored.status();
  EXPECT_EQ((*store)->Turn(1)->state, store::TurnState::kCollected);
  EXPECT_EQ((*restored)->Turn(1)->state, store::TurnState::kCommitted);
  EXPECT_EQ(*(*restored)->Session(store::NewSession(7).key),
            *(*store)->Session(store::NewSession(7).key));
  EXPECT_EQ((*store)->Id()->size(), 32u);
  EXPECT_EQ((*restored)->Id()->size(), 32u);
  EXPECT_NE(*(*store)->Id(), *(*restored)->Id());
}

TEST_F(ServerStoreTest, TheCommandsLookAtSegments) {
  constexpr size_t kBytes = 100'000;
  const store::SessionRow row = store::NewSession(7);
  const auto open = [&] {
    auto opened = store::SqliteStore::Open(store_, {});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  };
  const auto write = [&](store::SqliteStore& store, store::TurnNumber turn) {
    const absl::Status added =
        store::AddOne(store, turn, 2, store::NewKey(1),
                      {{store::NewSpan(1, 0, {}), kBytes}, {store::NewFixed(2, 64), kBytes}});
    EXPECT_TRUE(added.ok()) << added;
  };
  const auto files = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& file : std::filesystem::directory_iterator(store_ + "/segments")) {
      found.push_back(file.path());
    }
    return found;
  };
  const auto check = [&](int exit_code) {
    const ClientRun run = RunClient({"store", "check", store_});
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    return run.out;
  };
  store::TurnNumber turn = store::kNoTurn;
  {
    const auto store = open();
    ASSERT_TRUE(store::ApplyOne(*store, store::OpenSession{row}).ok());
    turn = store::CommitOne(*store, row.key, 1, 64);
    write(*store, turn);
  }
  EXPECT_EQ(check(0), "no damage found\n");
  ASSERT_EQ(files().size(), 2u);

  const std::string orphan(32, 'a');
  std::ofstream(store_ + "/segments/" + orphan) << "left by a crash";
  std::filesystem::last_write_time(
      store_ + "/segments/" + orphan,
      std::filesystem::file_time_type::clock::now() - std::chrono::minutes(11));
  EXPECT_THAT(check(1), HasSubstr(orphan + " of segments has no row"));
  ASSERT_EQ(RunClient({"store", "gc", store_}).exit_code, 0);
  EXPECT_EQ(check(0), "no damage found\n");
  EXPECT_EQ(files().size(), 2u) << "those with rows stay";

  const std::filesystem::path damaged = files()[0], missing = files()[1];
  std::fstream(damaged, std::ios::in | std::ios::out | std::ios::binary).seekp(77).put('\0');
  std::filesystem::remove(missing);
  const std::string faults = check(1);
  EXPECT_THAT(faults, HasSubstr(damaged.filename().string() + ", is damaged"));
  EXPECT_THAT(faults, HasSubstr(missing.filename().string() + ", has no file"));

  // A backup has no snapshots, so damaged ones do not prevent it.
  const std::string backup = directory_.string() + "/backup";
  const ClientRun copied = RunClient({"store", "backup", store_, backup});
  EXPECT_EQ(copied.exit_code, 0) << copied.err;
  EXPECT_FALSE(std::filesystem::exists(backup + "/segments"));
  EXPECT_EQ(RunClient({"store", "check", backup}).exit_code, 0);

  // Written anew, they are sound. The files before them go when they have been dead for a while.
  write(*open(), turn);
  EXPECT_EQ(check(0), "no damage found\n");
  const store::CloseSession close = {row.key, std::nullopt, store::At(3)};
  ASSERT_TRUE(store::ApplyOne(*open(), close).ok());
  ASSERT_EQ(RunClient({"store", "gc", store_}).exit_code, 0);
  EXPECT_EQ(check(0), "no damage found\n");
  EXPECT_TRUE(files().empty());
}

TEST_F(ServerStoreTest, TheCommandsReportDamageAndWrongUse) {
  MakeStore();
  Sql("UPDATE sessions SET position = 11");
  const ClientRun check = RunClient({"store", "check", store_});
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_THAT(check.out, HasSubstr("is damaged: its checksum differs"));
  const std::string backup = directory_.string() + "/backup";
  const ClientRun copied = RunClient({"store", "backup", store_, backup});
  EXPECT_EQ(copied.exit_code, 1);
  EXPECT_THAT(copied.err, HasSubstr("a damaged store is not backed up"));
  EXPECT_TRUE(std::filesystem::is_empty(backup));
  for (const char* command : {"check", "gc"}) {
    const ClientRun missing = RunClient({"store", command, directory_.string() + "/none"});
    EXPECT_EQ(missing.exit_code, 1);
    EXPECT_THAT(missing.err, HasSubstr("/none/log.db: No such file or directory"));
  }
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "none"));
  EXPECT_EQ(RunClient({"store", "gc", store_, "--keep-rewound", "-1h"}).exit_code, 2);
}

}  // namespace
}  // namespace longstream
