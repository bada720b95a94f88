// Compares what sessions count in the host's memory with what the whole process allocates for them.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/allocation_counter.h"

namespace longstream {
namespace {

// How much more than the allocated bytes may be counted. At least kLeast of them must be.
constexpr double kMost = 1.6;
constexpr double kLeast = 0.95;

class SessionBytesTest : public ServerTest {
 protected:
  SessionBytesTest()
      : ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens,
                   "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}") {}

  int64_t Held() const { return static_cast<int64_t>(models().host_memory()->held_bytes()); }

  // Waits until no turn is left, so that only sessions hold memory.
  void WaitUntilIdle() {
    const auto engine = models().Find("m").value();
    while (engine->num_turns() > 0) absl::SleepFor(absl::Milliseconds(1));
    engine->Flush();
    absl::SleepFor(absl::Milliseconds(50));  // reactors are destroyed after their calls have ended
  }

  // Expects that `act` makes the process allocate about as much as it makes sessions count.
  void ExpectCounted(const std::function<void()>& act, const std::string& what) {
    WaitUntilIdle();
    const int64_t allocated_before = AllocatedBytes();
    const int64_t held_before = Held();
    act();
    WaitUntilIdle();
    const auto allocated = static_cast<double>(AllocatedBytes() - allocated_before);
    const auto held = static_cast<double>(Held() - held_before);
    EXPECT_GE(held, kLeast * allocated) << what;
    EXPECT_LE(held, kMost * allocated) << what;
  }

  SessionId OpenOne() {
    absl::Notification done;
    SessionId id;
    sessions().OpenSession("", "m", std::nullopt, std::nullopt,
                           [&](const absl::StatusOr<SessionView>& view) {
                             id = view.value().id;
                             done.Notify();
                           });
    done.WaitForNotification();
    return id;
  }

  // Runs turns with this JSON in their messages.
  void Talk(const std::string& id, const std::string& json, int turns) {
    for (int i = 0; i < turns; ++i) {
      v1::GenerateRequest request = Request(id);
      v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
      message->set_role("user");
      message->set_content("a");
      message->set_json(json);
      ASSERT_TRUE(Generate(request).status.ok());
    }
  }
};

TEST_F(SessionBytesTest, SessionsAndTokens) {
  Talk(Open(), "{}", 3);  // buffers that exist once
  std::vector<SessionId> ids;
  ids.reserve(1000);
  ExpectCounted(
      [&] {
        while (ids.size() < 1000) ids.push_back(OpenOne());
      },
      "1000 sessions");
  v1::GenerateRequest request = Request("");
  request.set_max_tokens(1);
  request.mutable_input()->set_text(std::string(3000, 't'));
  ExpectCounted(
      [&] {
        for (size_t i = 0; i < 200; ++i) {
          request.set_session_id(ids[i].ToString());
          ASSERT_TRUE(Generate(request).status.ok());
        }
      },
      "200 sessions with 3000 tokens");
}

TEST_F(SessionBytesTest, Conversations) {
  constexpr int kTurns = 100;  // so many that gRPC's buffers do not matter
  std::string members = "{";
  for (int i = 0; i < 300; ++i) {
    members += "\"m" + std::to_string(i) + "\":[" + std::to_string(i) + "],";
  }
  members += "\"x\":{}}";
  std::string deep = "1";
  for (int i = 0; i < 90; ++i) deep = "{\"a\":" + deep + "}";
  const std::vector<std::pair<std::string, std::string>> shapes = {
      {"a long string", "{\"x\":\"" + std::string(50000, 'y') + "\"}"},
      {"many members", members},
      {"deep objects", deep}};
  const std::string warm = Open();
  for (const auto& [name, json] : shapes) Talk(warm, json, kTurns);  // buffers of gRPC
  for (const auto& [name, json] : shapes) {
    const std::string id = Open();
    ExpectCounted([&] { Talk(id, json, kTurns); }, "turns with " + name);
    EXPECT_GE(Get(id).bytes().host(), kTurns * json.size());
  }
}

}  // namespace
}  // namespace longstream
