// Which errors end a turn, and when the client goes on with it.
#include "client/errors/retries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "google/rpc/status.pb.h"

namespace longstream::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60000};

grpc::Status Status(grpc::StatusCode code, const std::string& message = "why") {
  return {code, message};
}

grpc::Status Asks(int seconds, grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(seconds);
  google::rpc::Status details;
  details.add_details()->PackFrom(retry);
  return {code, "not now", details.SerializeAsString()};
}

std::optional<milliseconds> FirstPause(const grpc::Status& status, milliseconds timeout = kLong) {
  return Retries(timeout).PauseAfter(status, 0);
}

TEST(RetriesTest, ALostTurnGoesOn) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED,
                          grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN}) {
    EXPECT_TRUE(FirstPause(Status(code)).has_value()) << code << ", before the first token";
    EXPECT_TRUE(Retries(kLong).PauseAfter(Status(code), 7).has_value()) << code;
    EXPECT_FALSE(FirstPause(Status(code), milliseconds(0)).has_value()) << code;
  }
}

TEST(RetriesTest, OtherErrorsEndIt) {
  for (const auto code : {grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::NOT_FOUND,
                          grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::CANCELLED,
                          grpc::StatusCode::ALREADY_EXISTS, grpc::StatusCode::DATA_LOSS}) {
    EXPECT_FALSE(FirstPause(Status(code)).has_value()) << code;
  }
  EXPECT_FALSE(FirstPause(Asks(1, grpc::StatusCode::RESOURCE_EXHAUSTED)).has_value());
}

TEST(RetriesTest, ACallThatAnEndingServerHasNotSeenIsSentAgain) {
  const grpc::Status unseen = Status(grpc::StatusCode::CANCELLED, "CANCELLED");
  EXPECT_TRUE(FirstPause(unseen).has_value());
  EXPECT_FALSE(FirstPause(unseen, milliseconds(0)).has_value());
}

TEST(RetriesTest, ErrorsThatMayBeTheTurnsOwnEndAreTriedAFewTimes) {
  Retries retries(kLong);
  const grpc::Status failed = Status(grpc::StatusCode::INTERNAL);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(retries.PauseAfter(failed, 0).has_value()) << i;
  EXPECT_FALSE(retries.PauseAfter(failed, 0).has_value());
  EXPECT_TRUE(retries.PauseAfter(failed, 1).has_value()) << "a token has come";
}

TEST(RetriesTest, PausesGrowAreRandomAndBeginAnewWithEachToken) {
  std::set<milliseconds> drawn;
  for (int trial = 0; trial < 30; ++trial) {
    Retries retries(kLong);
    for (const int bound : {50, 100, 200, 400, 500, 500}) {
      const auto pause = retries.PauseAfter(Status(grpc::StatusCode::UNAVAILABLE), 3);
      ASSERT_TRUE(pause.has_value());
      EXPECT_GE(*pause, milliseconds(bound / 2));
      EXPECT_LE(*pause, milliseconds(bound));
      drawn.insert(*pause);
    }
    EXPECT_LE(retries.PauseAfter(Status(grpc::StatusCode::UNAVAILABLE), 4), milliseconds(50));
  }
  EXPECT_GT(drawn.size(), 20u);
}

TEST(RetriesTest, AServerThatSaysWhenGetsTheCallNoEarlier) {
  EXPECT_EQ(FirstPause(Asks(2)), milliseconds(2000));
  EXPECT_THAT(FirstPause(Asks(0)), testing::Optional(testing::Ge(milliseconds(25))));
  EXPECT_FALSE(FirstPause(Asks(2), milliseconds(1000)).has_value()) << "that is beyond the time";
}

TEST(RetriesTest, TheErrorOfAModelThatCouldNotBeLoadedIsKnown) {
  v1::ListModelsResponse known;
  const auto add = [&](const std::string& name, v1::ModelState state, const std::string& error) {
    v1::Model& model = *known.add_models();
    model.set_name(name);
    model.set_state(state);
    model.set_error(error);
  };
  add("a", v1::MODEL_STATE_FAILED, "no such file");
  add("b", v1::MODEL_STATE_LOADING, "");
  const auto is_failed = [&](const std::string& message) {
    return SaysModelWasNotLoaded(Status(grpc::StatusCode::UNAVAILABLE, message), known);
  };
  EXPECT_TRUE(is_failed("model a could not be loaded: no such file"));
  EXPECT_FALSE(is_failed("model b is loading"));
  EXPECT_FALSE(is_failed("model a has failed: the device was lost")) << "a restart mends it";
  EXPECT_FALSE(is_failed("the server is draining"));
  EXPECT_FALSE(is_failed("model c could not be loaded: no such file"));
}

}  // namespace
}  // namespace longstream::client
