// The limits of one request, and the limit for all requests together.
#include "service/wire/request_memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace longstream {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(RequestMemoryTest, ARequestMayTakeFourTimesItsSizeAndAMebibyte) {
  RequestMemory memory(1000 * kMiB);
  RequestCharge charge(&memory, 10 * kMiB);
  EXPECT_LE(charge.bytes_left(), 41 * kMiB);
  EXPECT_GT(charge.bytes_left(), 40 * kMiB);
  ASSERT_TRUE(charge.Add(40 * kMiB).ok());
  const absl::Status status = charge.Add(kMiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("the message of 10485760 bytes would take more than"),
            std::string::npos)
      << status;
  EXPECT_EQ(charge.bytes(), 40 * kMiB) << "a refused Add counts nothing";
  charge.Subtract(2 * kMiB);
  EXPECT_TRUE(charge.Add(kMiB).ok());
}

TEST(RequestMemoryTest, AllRequestsTogetherAreBounded) {
  RequestMemory memory(10 * kMiB);
  std::optional<RequestCharge> first(std::in_place, &memory, 10 * kMiB);
  ASSERT_TRUE(first->Add(8 * kMiB).ok());
  RequestCharge second(&memory, 10 * kMiB);
  const absl::Status status = second.Add(3 * kMiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("max_transit_bytes: the requests that are being read hold"),
            std::string::npos)
      << status;
  first.reset();
  EXPECT_EQ(memory.held_bytes(), 0u);
  EXPECT_TRUE(second.Add(3 * kMiB).ok());
}

// Otherwise a limit that is less than four times the largest request would refuse it for ever.
TEST(RequestMemoryTest, ARequestAloneMayExceedTheLimitOfAll) {
  RequestMemory memory(kMiB);
  RequestCharge charge(&memory, 10 * kMiB);
  EXPECT_TRUE(charge.Add(8 * kMiB).ok());
  EXPECT_TRUE(charge.Add(8 * kMiB).ok());
  RequestCharge other(&memory, 10 * kMiB);
  EXPECT_EQ(other.Add(1).code(), absl::StatusCode::kResourceExhausted);
}

TEST(RequestMemoryTest, BytesAreGivenBackOnce) {
  RequestMemory memory(100 * kMiB);
  {
    RequestCharge charge(&memory, 10 * kMiB);
    ASSERT_TRUE(charge.Add(20 * kMiB).ok());
    charge.Subtract(15 * kMiB);
    EXPECT_LT(memory.held_bytes(), 6 * kMiB);
    EXPECT_GE(memory.held_bytes(), 5 * kMiB);
    const RequestCharge moved = std::move(charge);
    RequestCharge assigned(&memory, kMiB);
    ASSERT_TRUE(assigned.Add(kMiB).ok());
    RequestCharge third(&memory, kMiB);
    assigned = std::move(third);
  }
  EXPECT_EQ(memory.held_bytes(), 0u);
}

}  // namespace
}  // namespace longstream
