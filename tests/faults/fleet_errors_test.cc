// Errors tell the clients of a fleet when to try again, where a session is, and which caches have
// no room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/errors/error_details.h"
#include "tests/faults/fleet_fixture.h"
#include "tests/processes/client_process.h"

namespace longstream {
namespace {

using testing::HasSubstr;

TEST_F(FleetTest, WithoutItsDatabaseAServerSaysWhenToTryAgain) {
  const Replica a = Start("a", "fetch", "2s", "store: {commit_timeout: 1s}");
  const std::vector<ScriptedTurn> script = Script(a, 1, 8);
  const std::string session = Open(a);
  const v1::GenerateRequest request = For(session, script[0]);
  postgres_.Crash();
  const auto status_of = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const client::CallError& error) {
      return error.status();
    }
    return grpc::Status::OK;
  };
  const std::map<std::string, std::function<void()>> calls = {
      {"a turn", [&] { a->Collect(request); }},
      {"an open", [&] { a->Open(kModel, client::RandomId()); }},
      {"a list", [&] { a->Sessions(""); }}};
  for (const auto& [what, call] : calls) {
    const grpc::Status refused = status_of(call);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE)
        << what << ": " << refused.error_message();
    EXPECT_TRUE(client::RetryDelay(refused).has_value()) << what;
  }
  postgres_.Start();
  EXPECT_EQ(a->Generate(request).token_ids, script[0].tokens) << "it tries again by itself";
}

TEST_F(FleetTest, CachesForWhichAServerHasNoRoomAreCounted) {
  const Replica a = Start("a");
  const Replica small = Start("b", "fetch", "2s", "drain_timeout: 20s", ",cache_bytes=1MiB");
  std::string text = "The beginning of a long story.";
  while (text.size() < 20'000) text += text;
  v1::GenerateRequest request = For(Open(a), {RandomTurn(text, 1, 3), {}});
  Run(a, request);
  request = For(request.session_id(), {RandomTurn("more", 1, 3), {}});
  try {
    Run(small, request);
    ADD_FAILURE() << "the session has room";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << error.what();
  }
  EXPECT_GE(FromPeers(small, "no_memory"), 1);
  EXPECT_EQ(FromPeers(small, "ok"), 0);
  EXPECT_NE(Run(a, request).finish.usage().restore_source(), v1::RESTORE_SOURCE_PEER);
}

TEST_F(FleetTest, AServerNamesTheOwnerOfASession) {
  const Replica a = Start("a", "redirect");
  const Replica b = Start("b", "redirect");
  const std::vector<ScriptedTurn> script = Script(a, 1, 8);
  const std::string session = Open(a);
  EXPECT_EQ(Run(a, For(session, script[0])).token_ids, script[0].tokens);
  try {
    Run(b, For(session, script[0]));
    ADD_FAILURE() << "the session is on the other server";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(error.status().error_message(), HasSubstr(a.server->address()));
    EXPECT_EQ(client::AddressOfSession(error.status()), a.server->address());
  }
  const v1::Session there = b->Get(session);
  EXPECT_EQ(there.position(), a->Get(session).position()) << "to read it, it may stay";
  EXPECT_THAT(there.owner(), testing::StartsWith("a/"));
  EXPECT_EQ(there.bytes().host(), 0u);
  EXPECT_EQ(a->Get(session).owner(), "");
  const std::vector<v1::Session> list = b->Sessions("");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].owner(), there.owner());
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.end(), {"--server", b.server->address()});
    return RunClient(command);
  };
  EXPECT_THAT(run({"sessions"}).out, HasSubstr("-        " + there.owner()));
  EXPECT_THAT(run({"sessions", "show", session}).out,
              testing::ContainsRegex("replica +" + there.owner()));
  const ClientRun refused = run({"generate", "-s", session, "-n", "1", "x"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("; use --server " + a.server->address() + "\n"));
}

}  // namespace
}  // namespace longstream
