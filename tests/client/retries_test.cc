// Which errors end a turn, and after which the client goes on with it.
#include "client/retries.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace longstream::client {
namespace {

constexpr std::chrono::minutes kLong{1};

Generation Started() {
  Generation generation;
  generation.started.set_turn_id("t");
  return generation;
}

grpc::Status Status(grpc::StatusCode code, const std::string& message = "why") {
  return {code, message};
}

TEST(RetriesTest, ALostTurnGoesOn) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED,
                          grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN}) {
    EXPECT_TRUE(Retries(kLong).Allows(Status(code), Started())) << code;
    EXPECT_FALSE(Retries(kLong).Allows(Status(code), {})) << "it has not started";
  }
}

TEST(RetriesTest, ATurnThatHasNotStartedIsSentAgainIfTheServerAsksForIt) {
  const grpc::Status asks(grpc::StatusCode::UNAVAILABLE, "the session is being moved",
                          "\n%type.googleapis.com/google.rpc.RetryInfo");
  EXPECT_TRUE(Retries(kLong).Allows(asks, {}));
  EXPECT_FALSE(Retries(std::chrono::milliseconds(0)).Allows(asks, {}));
}

TEST(RetriesTest, OtherErrorsEndIt) {
  for (const auto code : {grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::NOT_FOUND,
                          grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::CANCELLED}) {
    EXPECT_FALSE(Retries(kLong).Allows(Status(code), Started())) << code;
  }
}

TEST(RetriesTest, ACallThatAnEndingServerHasNotSeenIsSentAgain) {
  const grpc::Status unseen = Status(grpc::StatusCode::CANCELLED, "CANCELLED");
  EXPECT_TRUE(Retries(kLong).Allows(unseen, Started()));
  EXPECT_TRUE(Retries(kLong).Allows(unseen, {}));
  EXPECT_FALSE(Retries(std::chrono::milliseconds(0)).Allows(unseen, Started()));
}

}  // namespace
}  // namespace longstream::client
