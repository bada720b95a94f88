// The disk under the store of a running server is full, read-only, slow or fails. Commits are
// refused by name, sessions stay as they were, and other streams go on.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/errors/error_details.h"
#include "client/random_id.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/faults/kept_server.h"
#include "tests/faults/turn_script.h"

namespace longstream {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

class FailingDiskTest : public testing::Test {
 protected:
  explicit FailingDiskTest(const std::string& config = "store: {commit_timeout: 1s}\n")
      : config_(minimal_.Write("server.yaml", config)),
        server_({"--config", config_, "--model",
                 minimal_.Flag(",options.utf8=true,options.step_delay_us=1000")}) {
    server_.WaitUntilServing("m");
    RunUndisturbed(connection_, "m", &turns_);
    session_ = connection_.Open("m").session_id();
    position_ = connection_.Generate(Request(0)).finish.position();
    WaitUntilSaved();
  }
  // Waits until the snapshot of the turn is in the store, so that no other sync follows.
  void WaitUntilSaved() {
    const auto until = Clock::now() + std::chrono::seconds(60);
    const auto saves = [&] {
      return SampleValue(Scrape(server_.metrics_port()), "longstream_session_saves_total",
                         {{"outcome", "ok"}})
          .value_or(0);
    };
    while (saves() < 1 && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(saves(), 1);
  }

  v1::GenerateRequest Request(size_t turn) const {
    v1::GenerateRequest request = turns_[turn].request;
    request.set_session_id(session_);
    request.set_turn_id(client::RandomId());
    return request;
  }
  // The error of a turn whose disk fails from the first fsync after the turn's start on.
  grpc::Status ErrorOf(const v1::GenerateRequest& request, const std::string& fault) {
    server_.SetFault(fault + " 1");
    client::Connection once(server_.address());
    once.set_resume_timeout(std::chrono::milliseconds(0));
    return StatusOf([&] { once.Generate(request); });
  }
  static grpc::Status StatusOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const client::CallError& error) {
      return error.status();
    }
    return grpc::Status::OK;
  }
  void ExpectSecondTurn(const v1::GenerateRequest& request) {
    EXPECT_EQ(connection_.Generate(request).token_ids, turns_[1].tokens);
    EXPECT_EQ(connection_.Turns(session_).size(), 2u);
  }

  const MinimalModelDirectory minimal_;
  const std::string config_;
  KeptServer server_;
  client::Connection connection_{server_.address()};
  std::vector<ScriptedTurn> turns_ = {{RandomTurn("hello", 16, 5), {}},
                                      {RandomTurn(" and more", 16, 6), {}}};
  std::string session_;
  uint64_t position_ = 0;
};

TEST_F(FailingDiskTest, AFullDiskRefusesTheCommitAndTakesItWhenThereIsRoom) {
  const v1::GenerateRequest request = Request(1);
  const grpc::Status full = ErrorOf(request, "full 0");
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << full.error_message();
  EXPECT_THAT(full.error_message(), HasSubstr("store"));
  EXPECT_EQ(connection_.Get(session_).position(), position_);
  EXPECT_THROW(connection_.Open("m"), client::CallError);
  server_.SetFault("none");
  ExpectSecondTurn(request);
  EXPECT_EQ(server_.starts(), 1);
}

TEST_F(FailingDiskTest, AReadOnlyDiskRefusesTheCommit) {
  const v1::GenerateRequest request = Request(1);
  const grpc::Status refused = ErrorOf(request, "read-only 0");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE) << refused.error_message();
  EXPECT_EQ(client::RetryDelay(refused), std::nullopt) << "the server must be started again";
  EXPECT_EQ(connection_.Get(session_).position(), position_);
  server_.Kill();
  server_.WaitUntilServing("m");
  ExpectSecondTurn(request);
}

TEST_F(FailingDiskTest, AFailedFsyncEndsAllCommitsUntilTheRestart) {
  const v1::GenerateRequest request = Request(1);
  const grpc::Status failed = ErrorOf(request, "fsync 0");
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::UNAVAILABLE) << failed.error_message();
  EXPECT_EQ(client::RetryDelay(failed), std::nullopt) << "the server must be started again";
  server_.SetFault("none");
  const grpc::Status refused = StatusOf([&] { connection_.Open("m"); });
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE) << "no later fsync is believed";
  EXPECT_EQ(client::RetryDelay(refused), std::nullopt);
  EXPECT_NO_THROW(connection_.Get(session_));
  server_.Kill();
  server_.WaitUntilServing("m");
  ExpectSecondTurn(request);
}

TEST_F(FailingDiskTest, ASlowDiskDelaysTheEndOfATurnAndNoOtherToken) {
  const std::string other = connection_.Open("m").session_id();
  v1::GenerateRequest request = Request(1);
  server_.SetFault("slow 300");
  const auto begin = Clock::now();
  const client::Generation slow = connection_.Generate(request);
  EXPECT_EQ(slow.token_ids, turns_[1].tokens);
  // The start and the commit are one fsync each. Tokens come between them.
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(600));
  const double last_token = slow.token_seconds.back();
  EXPECT_GE(std::chrono::duration<double>(Clock::now() - begin).count() - last_token, 0.25);
  EXPECT_EQ(server_.starts(), 1);
}

TEST_F(FailingDiskTest, ADiskThatHangsIsUnavailableAndTheSameRequestGetsTheAnswerLater) {
  const v1::GenerateRequest request = Request(1);
  const auto begin = Clock::now();
  const grpc::Status late = ErrorOf(request, "slow 3000");
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(2500));
  EXPECT_EQ(late.error_code(), grpc::StatusCode::UNAVAILABLE) << late.error_message();
  EXPECT_TRUE(client::RetryDelay(late).has_value()) << "the disk may only be slow";
  EXPECT_THAT(late.error_message(), HasSubstr("store.commit_timeout, 1s"));
  // The session is busy until the store answers.
  EXPECT_THROW(connection_.Collect(Request(0)), client::CallError);
  // The next call may also wait longer than the timeout.
  Persist([&] { return connection_.Generate(request); });
  ExpectSecondTurn(request);
  EXPECT_EQ(server_.starts(), 1);
}

// Makes a call again until the store has answered. A session that waits for it is busy.
template <typename Function>
auto Repeat(const Function& call) -> decltype(call()) {
  for (;;) {
    try {
      return Persist(call);
    } catch (const client::CallError& error) {
      if (error.status().error_code() != grpc::StatusCode::ABORTED) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST_F(FailingDiskTest, ADiskThatHangsEndsOtherCallsToo) {
  const std::string rewound = connection_.Fork(session_).session_id();
  const std::string closed = connection_.Open("m").session_id();
  std::string file;
  connection_.Export(session_, false, [&](std::string_view bytes) { file += bytes; });
  const std::string opened = client::RandomId(), forked = client::RandomId();
  v1::ImportSessionRequest import;
  import.set_session_id(client::RandomId());
  const auto open = [&] { return connection_.Open("m", opened); };
  const auto fork = [&] { return connection_.Fork(session_, forked); };
  const auto rewind = [&] { return connection_.RewindToPosition(rewound, 3); };

  server_.SetFault("hang 0");
  const auto expect_late = [&](const std::function<void()>& call) {
    const grpc::Status late = StatusOf(call);
    EXPECT_EQ(late.error_code(), grpc::StatusCode::UNAVAILABLE) << "the disk hangs";
    EXPECT_THAT(late.error_message(), HasSubstr("store.commit_timeout, 1s"));
    EXPECT_TRUE(client::RetryDelay(late).has_value());
  };
  expect_late(open);
  expect_late(fork);
  expect_late(rewind);
  expect_late([&] { connection_.Close(closed); });
  expect_late([&] { connection_.Import(import, [&] { return std::exchange(file, ""); }); });

  server_.SetFault("none");
  EXPECT_EQ(Repeat(open).session_id(), opened);
  EXPECT_EQ(Repeat(fork).position(), position_);
  EXPECT_EQ(Repeat(rewind).position(), 3u);
  // The first calls are made in their order, and the import was the last one.
  v1::GenerateRequest request = Request(1);
  request.set_session_id(import.session_id());
  for (;;) {
    try {
      connection_.Get(import.session_id());
      break;
    } catch (const client::CallError& error) {
      ASSERT_EQ(error.status().error_code(), grpc::StatusCode::NOT_FOUND);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(connection_.Generate(request).token_ids, turns_[1].tokens);
  EXPECT_THROW(connection_.Get(closed), client::CallError);
  EXPECT_EQ(server_.starts(), 1);
}

// Nothing but the end of the drain ends the calls.
class HangingDrainTest : public FailingDiskTest {
 protected:
  HangingDrainTest() : FailingDiskTest("store: {commit_timeout: 1h}\ngrace: 500ms\n") {}

  static void ExpectEndedByStore(const ServerRun& run) {
    EXPECT_EQ(run.exit_code, 3) << run.log;
    EXPECT_THAT(run.log, HasSubstr("\"event\":\"stopped\",\"error\":\"store: the disk"));
  }
};

TEST_F(HangingDrainTest, SigtermEndsCallsThatWaitForTheDisk) {
  const v1::GenerateRequest request = Request(1);
  const std::string opened = client::RandomId();
  std::promise<void> last_token;
  const auto status_of = [this](const std::function<void(client::Connection&)>& call) {
    client::Connection once(server_.address());
    once.set_resume_timeout(std::chrono::milliseconds(0));
    try {
      call(once);
    } catch (const client::CallError& error) {
      return error.status();
    }
    return grpc::Status::OK;
  };
  server_.SetFault("hang 0 1");  // after the start of the turn
  std::future<grpc::Status> turn = std::async(std::launch::async, [&] {
    return status_of([&](client::Connection& once) {
      size_t tokens = 0;
      once.Generate(request, [&](const v1::GenerateResponse& response) {
        const auto more = static_cast<size_t>(response.delta().token_ids_size());
        if (more > 0 && (tokens += more) == turns_[1].tokens.size()) last_token.set_value();
        return true;
      });
    });
  });
  last_token.get_future().wait();
  std::future<grpc::Status> open = std::async(std::launch::async, [&] {
    return status_of([&](client::Connection& once) { once.Open("m", opened); });
  });
  // The session is listed while it is being made.
  while (connection_.Sessions("").size() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ExpectEndedByStore(server_.Stop());
  for (const grpc::Status& status : {turn.get(), open.get()}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("the server is shutting down"));
    EXPECT_TRUE(client::RetryDelay(status).has_value()) << "the next server may take the call";
  }
  server_.WaitUntilServing("m");
  ExpectSecondTurn(request);
  EXPECT_EQ(connection_.Open("m", opened).session_id(), opened);
}

TEST_F(HangingDrainTest, SigtermEndsAnIdleServer) {
  server_.SetFault("hang 0");
  ExpectEndedByStore(server_.Stop());
  server_.WaitUntilServing("m");
  ExpectSecondTurn(Request(1));
}

// The snapshots of this model have files.
class FullDiskForSegmentsTest : public testing::Test {
 protected:
  FullDiskForSegmentsTest() {
    server_.WaitUntilServing("dense");
    session_ = connection_.Open("dense").session_id();
  }

  client::Generation Turn() {
    v1::GenerateRequest request = RandomTurn(std::string(300, 'a'), 2, 5);
    request.set_session_id(session_);
    request.set_turn_id(client::RandomId());
    return connection_.Generate(request);
  }
  double Sample(const std::string& name, const std::map<std::string, std::string>& labels) {
    return SampleValue(Scrape(server_.metrics_port()), name, labels).value_or(0);
  }
  // Waits until the sample is `value` or more.
  void WaitFor(double value, const std::string& name,
               const std::map<std::string, std::string>& labels) {
    const auto until = Clock::now() + std::chrono::seconds(60);
    while (Sample(name, labels) < value && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_GE(Sample(name, labels), value) << name;
  }
  // Waits until the metric and the health service tell the state of the store.
  void WaitForState(int state) {
    const std::string line = "\nlongstream_store_state " + std::to_string(state) + "\n";
    const auto health = state == 0 ? grpc::health::v1::HealthCheckResponse::SERVING
                                   : grpc::health::v1::HealthCheckResponse::NOT_SERVING;
    const auto told = [&] {
      return Scrape(server_.metrics_port()).find(line) != std::string::npos && Health() == health;
    };
    const auto until = Clock::now() + std::chrono::seconds(60);
    while (!told() && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_THAT(Scrape(server_.metrics_port()), HasSubstr(line));
    EXPECT_EQ(Health(), health);
  }
  void WaitForSaves(double count, const std::string& outcome) {
    WaitFor(count, "longstream_session_saves_total", {{"outcome", outcome}});
  }
  grpc::health::v1::HealthCheckResponse::ServingStatus Health() {
    const auto stub = grpc::health::v1::Health::NewStub(
        grpc::CreateChannel(server_.address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    request.set_service("longstream.store");
    EXPECT_TRUE(stub->Check(&context, request, &response).ok());
    return response.status();
  }

  KeptServer server_{{"--model", "dense=" LONGSTREAM_SOURCE_DIR "/models/demo/dense,device=cpu"}};
  client::Connection connection_{server_.address()};
  std::string session_;
};

TEST_F(FullDiskForSegmentsTest, TurnsGoOnAndSavingResumesWhenThereIsRoom) {
  Turn();
  WaitForSaves(1, "ok");
  server_.SetFault("full-segments 0");
  EXPECT_NO_THROW(Turn());
  WaitForSaves(1, "full");
  EXPECT_NO_THROW(Turn());
  WaitForState(0);  // the log takes changes

  // Now the log is full, too.
  server_.SetFault("full 0");
  EXPECT_THROW(connection_.Open("dense"), client::CallError);
  WaitForState(1);

  server_.SetFault("none");
  // The first change that is made tells that there is room. Snapshots wait for 10 s.
  uint64_t position = 0;
  const auto until = Clock::now() + std::chrono::seconds(60);
  while (Sample("longstream_session_saves_total", {{"outcome", "ok"}}) < 2 &&
         Clock::now() < until) {
    if (position < 5000) position = Turn().finish.position();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  WaitForState(0);
  EXPECT_EQ(server_.starts(), 1);
  EXPECT_GE(Sample("longstream_session_saves_total", {{"outcome", "ok"}}), 2);
}

}  // namespace
}  // namespace longstream
