// Which server the details of an error name.
#include "client/errors/error_details.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "client/connection.h"
#include "google/rpc/status.pb.h"

namespace longstream::client {
namespace {

grpc::Status Elsewhere(const std::string& domain, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_domain(domain);
  info.set_reason(reason);
  for (const auto& [key, value] : {std::pair{"owner", "a/1"}, std::pair{"address", "host:1"}}) {
    auto* const entry = info.add_metadata();
    entry->set_key(key);
    entry->set_value(value);
  }
  google::rpc::Status details;
  details.add_details()->PackFrom(google::rpc::RetryInfo());
  details.add_details()->PackFrom(info);
  return {grpc::StatusCode::FAILED_PRECONDITION, "why", details.SerializeAsString()};
}

TEST(ErrorDetailsTest, AnErrorNamesTheServerThatHasTheSession) {
  const grpc::Status elsewhere = Elsewhere("longstream", "SESSION_ELSEWHERE");
  EXPECT_EQ(AddressOfSession(elsewhere), "host:1");
  EXPECT_EQ(CallError(elsewhere).session_address(), "host:1");
}

TEST(ErrorDetailsTest, OtherErrorsNameNone) {
  EXPECT_EQ(AddressOfSession(Elsewhere("example.com", "SESSION_ELSEWHERE")), "");
  EXPECT_EQ(AddressOfSession(Elsewhere("longstream", "OTHER")), "");
  EXPECT_EQ(AddressOfSession({grpc::StatusCode::FAILED_PRECONDITION, "why"}), "");
  EXPECT_EQ(AddressOfSession({grpc::StatusCode::FAILED_PRECONDITION, "why", "\xff\xff"}), "");
}

TEST(ErrorDetailsTest, AnErrorSaysWhenTheServerWantsTheRequestAgain) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  google::rpc::Status details;
  details.add_details()->PackFrom(google::rpc::ErrorInfo());
  details.add_details()->PackFrom(retry);
  const grpc::Status status(grpc::StatusCode::UNAVAILABLE, "why", details.SerializeAsString());
  EXPECT_EQ(RetryDelay(status), std::chrono::milliseconds(2500));
  EXPECT_EQ(CallError(status).retry_after(), std::chrono::milliseconds(2500));
  EXPECT_EQ(RetryDelay({grpc::StatusCode::UNAVAILABLE, "why"}), std::nullopt);
  EXPECT_EQ(RetryDelay({grpc::StatusCode::UNAVAILABLE, "why", "\xff\xff"}), std::nullopt);
}

}  // namespace
}  // namespace longstream::client
