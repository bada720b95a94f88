// Sessions of 16384 tokens on each demo model. The bytes that a session holds must follow the
// formula and must be the same in the finish message, in GetSession and in Prometheus.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kShort = 1000;  // not a multiple of a page
constexpr uint64_t kLong = 16384;
constexpr uint64_t kPageTokens = 64;

// The parameter is the name of a demo model, which is also the name of its backend.
class LongSessionTest : public testing::TestWithParam<std::string> {
 protected:
  LongSessionTest()
      : server_(kServerBinary,
                {"--model", GetParam() + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" + GetParam()}),
        connection_(server_.address()) {
    connection_.WaitUntilServing(GetParam(), seconds(60));
  }

  // Runs one turn that reads the first `bytes` of the held-out text, one token per byte. Returns
  // its finish message.
  v1::Finish Read(const std::string& session, uint64_t bytes) {
    std::ifstream file(LONGSTREAM_SOURCE_DIR "/models/demo/heldout.txt", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.mutable_input()->set_text(text.substr(0, bytes));
    request.set_max_tokens(1);
    request.mutable_sampling()->set_temperature(0);
    return connection_.Generate(request).finish;
  }

  // Waits until Prometheus reports `expected`, because gauges change after a turn's last message.
  // Returns the last value read.
  double Memory(const std::string& kind, uint64_t expected) {
    const auto until = Clock::now() + seconds(10);
    double value = -1;
    while (value != static_cast<double>(expected) && Clock::now() < until) {
      value = SampleValue(Scrape(server_.metrics_port()), "longstream_memory_bytes",
                          {{"model", GetParam()}, {"backend", GetParam()}, {"kind", kind}})
                  .value_or(-1);
      std::this_thread::sleep_for(milliseconds(20));
    }
    return value;
  }

  // REQUIRES: `session` is the only session and has read `tokens` tokens.
  void CheckBytes(const std::string& session, const v1::Finish& finish, uint64_t tokens) {
    const v1::Model model = connection_.Model(GetParam());
    const uint64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
    const v1::SessionBytes& bytes = finish.usage().bytes();
    EXPECT_EQ(finish.usage().prompt_tokens(), tokens);
    EXPECT_EQ(finish.position(), tokens + 1);
    EXPECT_EQ(bytes.kv(), pages * kPageTokens * model.kv_bytes_per_token());
    EXPECT_EQ(bytes.window(), model.window_bytes_per_session());
    EXPECT_EQ(bytes.state(), model.state_bytes_per_session());

    // The record of the turn, from which it can be resumed, is counted when the turn has ended.
    constexpr uint64_t kMostOfRecord = 1024;
    v1::SessionBytes now = connection_.Get(session).bytes();
    EXPECT_GE(now.host(), bytes.host());
    EXPECT_LE(now.host(), bytes.host() + kMostOfRecord);
    now.set_host(bytes.host());
    EXPECT_EQ(now.SerializeAsString(), bytes.SerializeAsString());
    EXPECT_EQ(Memory("kv", bytes.kv()), static_cast<double>(bytes.kv()));
    EXPECT_EQ(Memory("window", bytes.window()), static_cast<double>(bytes.window()));
    EXPECT_EQ(Memory("state", bytes.state()), static_cast<double>(bytes.state()));
  }

  ServerProcess server_;
  client::Connection connection_;
};

TEST_P(LongSessionTest, BytesFollowTheFormula) {
  const v1::Model model = connection_.Model(GetParam());
  EXPECT_GT(model.kv_bytes_per_token(), 0u);
  EXPECT_EQ(model.window_bytes_per_session() > 0, GetParam() == "hwfa2");
  EXPECT_EQ(model.state_bytes_per_session() > 0, GetParam() == "hypenet");
  ASSERT_GE(model.context_limit(), kLong + 1);

  for (const uint64_t tokens : {kShort, kLong}) {
    const std::string session = connection_.Open(GetParam()).session_id();
    CheckBytes(session, Read(session, tokens), tokens);
    connection_.Close(session);
    EXPECT_EQ(Memory("kv", 0) + Memory("window", 0) + Memory("state", 0), 0);
  }
  EXPECT_EQ(server_.Stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Demo, LongSessionTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace longstream
