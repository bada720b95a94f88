// Which errors tell a client when to send the call again.
#include "service/server/transport/grpc_status.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "service/errors/retry_after.h"
#include "tests/service/server/transport/retry_seconds.h"

namespace longstream {
namespace {

std::optional<double> SecondsOf(absl::Status status) {
  return RetrySeconds(ToGrpc(std::move(status)));
}

TEST(GrpcStatusTest, ErrorsThatPassSayWhen) {
  EXPECT_EQ(SecondsOf(absl::UnavailableError("the server is draining")), 0.5);
  EXPECT_EQ(SecondsOf(absl::ResourceExhaustedError("the queue is full")), 1);
}

TEST(GrpcStatusTest, AnErrorMaySayMore) {
  for (const absl::Status& status :
       {absl::UnavailableError("x"), absl::ResourceExhaustedError("x"), absl::AbortedError("x")}) {
    EXPECT_EQ(SecondsOf(WithRetryAfter(status, absl::Milliseconds(2500))), 2.5) << status;
    EXPECT_EQ(SecondsOf(UntilMended(status)), std::nullopt) << status;
  }
}

TEST(GrpcStatusTest, OtherErrorsDoNotSayIt) {
  for (const auto code :
       {absl::StatusCode::kAborted, absl::StatusCode::kInternal, absl::StatusCode::kUnknown,
        absl::StatusCode::kNotFound, absl::StatusCode::kFailedPrecondition}) {
    const grpc::Status status = ToGrpc(absl::Status(code, "why"));
    EXPECT_EQ(RetrySeconds(status), std::nullopt) << status.error_message();
    EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(code));
    EXPECT_EQ(status.error_message(), "why");
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(GrpcStatusTest, AnErrorThatIsWrappedKeepsItsTime) {
  const absl::Status source = UntilMended(absl::UnknownError("the fsync failed"));
  EXPECT_EQ(SecondsOf(WithRetryAfterOf(absl::UnavailableError("x"), source)), std::nullopt);
  EXPECT_EQ(SecondsOf(WithRetryAfterOf(absl::UnavailableError("x"), absl::UnknownError("y"))), 0.5);
}

}  // namespace
}  // namespace longstream
