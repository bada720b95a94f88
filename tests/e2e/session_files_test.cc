// A session moves from one server to another as a file, with the demo models: by the command, and
// beside running streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/random_id.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

std::string Model(const std::string& name) {
  return name + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" + name + ",device=cpu";
}

class SessionFilesTest : public testing::Test {
 protected:
  SessionFilesTest() : from_(Start("from")), to_(Start("to")) {}

  std::unique_ptr<ServerProcess> Start(const std::string& store) const {
    auto server = std::make_unique<ServerProcess>(
        kServerBinary,
        std::vector<std::string>{"--model", Model("dense"), "--model", Model("hypenet"), "--store",
                                 directory_.string() + "/" + store});
    for (const char* model : {"dense", "hypenet"}) {
      client::Connection(server->address()).WaitUntilServing(model, std::chrono::seconds(60));
    }
    return server;
  }

  static v1::GenerateRequest Turn(const std::string& session, const std::string& text) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.mutable_input()->set_text(text);
    request.set_max_tokens(40);
    request.mutable_sampling()->set_temperature(1.0f);
    request.mutable_sampling()->set_seed(3);
    request.mutable_stop()->set_ignore_eos(true);
    request.set_turn_id(client::RandomId());
    return request;
  }

  // Runs `longstream sessions ...`.
  static int Command(const ServerProcess& server, std::vector<std::string> arguments,
                     std::string* out) {
    arguments.insert(arguments.begin(), {"--server", server.address(), "sessions"});
    ClientProcess process(arguments);
    const int code = process.Wait();
    *out = process.out() + process.err();
    return code;
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<ServerProcess> from_;
  std::unique_ptr<ServerProcess> to_;
};

TEST_F(SessionFilesTest, TheCommandMovesASession) {
  client::Connection from(from_->address());
  for (const std::string model : {"dense", "hypenet"}) {
    SCOPED_TRACE(model);
    const std::string file = directory_.string() + "/" + model + ".session";
    const std::string id = from.Open(model).session_id();
    std::string text;
    for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i) + " of the text\n";
    const v1::GenerateRequest first_turn = Turn(id, text);
    const client::Generation first = from.Generate(first_turn);
    std::string out;
    ASSERT_EQ(Command(*from_, {"export", id, file}, &out), 0) << out;
    EXPECT_THAT(out, HasSubstr(" in " + file));
    EXPECT_FALSE(std::filesystem::exists(file + ".partial"));

    ASSERT_EQ(Command(*to_, {"import", file}, &out), 0) << out;
    EXPECT_EQ(out, id + "\n");
    client::Connection to(to_->address());
    const client::Generation repeated = to.Generate(first_turn);
    EXPECT_EQ(repeated.started.how(), v1::ATTACH_REPLAYED);
    EXPECT_EQ(repeated.text, first.text);
    const client::Generation expected = from.Generate(Turn(id, "What next?"));
    const client::Generation next = to.Generate(Turn(id, "What next?"));
    EXPECT_EQ(next.token_ids, expected.token_ids);
    EXPECT_EQ(next.finish.usage().recomputed_tokens(), 0u) << "the caches came with the file";
    ASSERT_EQ(Command(*to_, {"import", file}, &out), 1) << out;
    EXPECT_THAT(out, HasSubstr("ALREADY_EXISTS"));

    // The imported session is in the store: it outlives its server.
    to_->Signal(SIGKILL);
    to_->Wait();
    to_ = Start("to");
    client::Connection again(to_->address());
    const v1::GenerateRequest last = Turn(id, "And then?");
    EXPECT_EQ(again.Generate(last).token_ids, from.Generate(last).token_ids);
  }
}

TEST_F(SessionFilesTest, TheCommandNamesWhatIsWrong) {
  client::Connection from(from_->address());
  const std::string id = from.Open("dense").session_id();
  from.Generate(Turn(id, "hello"));
  const std::string file = directory_.string() + "/a.session";
  std::string out;
  ASSERT_EQ(Command(*from_, {"export", id, file}, &out), 0) << out;
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(file).permissions(), perms::owner_read | perms::owner_write)
      << "it has prompts";
  EXPECT_EQ(Command(*from_, {"export", id, directory_.string() + "/no/a"}, &out), 4) << out;
  EXPECT_THAT(out, HasSubstr("cannot write"));
  EXPECT_EQ(Command(*from_, {"export", client::RandomId(), file + "2"}, &out), 1) << out;
  EXPECT_THAT(out, HasSubstr("NOT_FOUND"));
  EXPECT_FALSE(std::filesystem::exists(file + "2.partial")) << "nothing is left of it";
  EXPECT_EQ(Command(*to_, {"import", file + "2"}, &out), 2) << out;
  EXPECT_THAT(out, HasSubstr("cannot be read"));
  EXPECT_EQ(Command(*to_, {"import", file, "--model", "hypenet"}, &out), 1) << out;
  EXPECT_THAT(out, HasSubstr("FAILED_PRECONDITION"));
  // A changed byte of the caches.
  {
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-500, std::ios::end);
    damaged.put('\x7f');
    damaged.seekp(-501, std::ios::end);
    damaged.put('\x80');
  }
  EXPECT_EQ(Command(*to_, {"import", file}, &out), 1) << out;
  EXPECT_THAT(out, HasSubstr("DATA_LOSS"));
  EXPECT_TRUE(client::Connection(to_->address()).Sessions("").empty());
}

}  // namespace
}  // namespace longstream
