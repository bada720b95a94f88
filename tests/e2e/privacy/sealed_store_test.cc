// A server whose store is sealed: the key file, sealed exports by the command, and a change of
// keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr char kText[] = "a text that nobody else may read";

class SealedStoreTest : public testing::Test {
 protected:
  // Writes the key file with the keys of these letters, and a configuration that names it.
  void WriteKeys(const std::string& ids, mode_t mode = 0600) {
    std::string text;
    for (const char id : ids) text += std::string(1, id) + " " + std::string(64, id) + "\n";
    directory_.Write("keys", text);
    ASSERT_EQ(chmod(keys_.c_str(), mode), 0);
    directory_.Write("config.yaml", "store: {url: " + store_ + ", keys: " + keys_ +
                                        ", compress: zstd}\nsessions: {imports: sealed}\n");
  }
  std::vector<std::string> Arguments() const {
    return {"--config", directory_.string() + "/config.yaml", "--model",
            "dense=" LONGSTREAM_SOURCE_DIR "/models/demo/dense,device=cpu"};
  }
  std::unique_ptr<ServerProcess> Start() const {
    auto server = std::make_unique<ServerProcess>(kServerBinary, Arguments());
    client::Connection(server->address()).WaitUntilServing("dense", std::chrono::seconds(60));
    return server;
  }
  // A turn of the session. Returns its tokens.
  static std::vector<int32_t> Turn(const ServerProcess& server, const std::string& session,
                                   const std::string& text) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.mutable_input()->set_text(text);
    request.set_max_tokens(20);
    request.mutable_sampling()->set_seed(3);
    request.mutable_stop()->set_ignore_eos(true);
    return client::Connection(server.address()).Generate(request).token_ids;
  }
  static ClientRun Sessions(const ServerProcess& server, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server.address(), "sessions"});
    return RunClient(arguments);
  }
  static std::string BytesOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TemporaryDirectory directory_;
  const std::string store_ = directory_.string() + "/store";
  const std::string keys_ = directory_.string() + "/keys";
  const std::string file_ = directory_.string() + "/sealed.session";
};

TEST_F(SealedStoreTest, AKeyFileThatOthersMayReadStopsTheStart) {
  WriteKeys("a", 0644);
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--listen", "127.0.0.1:0", "--metrics-listen", ""});
  const ServerRun run = RunServer(kServerBinary, arguments);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.log, HasSubstr("chmod 600 " + keys_));
  EXPECT_FALSE(std::filesystem::exists(store_)) << "nothing was made";
}

TEST_F(SealedStoreTest, SessionsMoveAsSealedFilesAndKeysChange) {
  WriteKeys("a");
  auto server = Start();
  EXPECT_THAT(server->Log(), HasSubstr("\"key\":\"a\""));
  const std::string session = client::Connection(server->address()).Open("dense").session_id();
  Turn(*server, session, kText);
  const std::string plain = directory_.string() + "/plain.session";
  ASSERT_EQ(Sessions(*server, {"export", session, plain}).exit_code, 0);
  const ClientRun exported = Sessions(*server, {"export", "--sealed", session, file_});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(BytesOf(plain), HasSubstr(kText));
  EXPECT_EQ(BytesOf(file_).find(kText), std::string::npos);
  const std::vector<int32_t> expected = Turn(*server, session, "and then");
  client::Connection(server->address()).Close(session);

  const ClientRun refused = Sessions(*server, {"import", plain});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("takes only sealed ones"));
  ASSERT_EQ(Sessions(*server, {"import", file_}).exit_code, 0);
  EXPECT_EQ(server->Stop(), 0);
  const ClientRun check = RunClient({"store", "check", store_, "--keys", keys_});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;

  // The next key, and the end of the old one.
  WriteKeys("ba");
  const ClientRun resealed = RunClient({"store", "reseal", store_, "--keys", keys_});
  EXPECT_EQ(resealed.exit_code, 0) << resealed.out << resealed.err;
  EXPECT_THAT(resealed.out, HasSubstr("segments with the key 'b'"));
  WriteKeys("b");
  const ClientRun with_new = RunClient({"store", "check", store_, "--keys", keys_});
  EXPECT_EQ(with_new.exit_code, 0) << with_new.out << with_new.err;
  server = Start();
  EXPECT_EQ(Turn(*server, session, "and then"), expected);
  const ClientRun foreign = Sessions(*server, {"import", file_});
  EXPECT_NE(foreign.exit_code, 0);
  EXPECT_THAT(foreign.err, HasSubstr("the key 'a' that sealed it is not among the keys"));
  EXPECT_EQ(server->Stop(), 0);
}

}  // namespace
}  // namespace longstream
