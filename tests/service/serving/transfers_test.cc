// Exports and imports in the quotas of tenants, and in the limit of the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

#include "service/errors/retry_after.h"
#include "tests/service/serving/tenant_sessions.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr SessionId kTransferred{1, 2};
constexpr uint64_t kStateBytes = 32;  // of the minimal model

void ExpectRefusal(const absl::Status& status, const std::string& text) {
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  EXPECT_EQ(RetryAfterOf(status), absl::Seconds(1));
}

class TransfersTest : public testing::Test {
 protected:
  TransfersTest() {
    for (const char* tenant : {"a", "b"}) {
      EXPECT_TRUE(sessions_.Open(tenant, kTransferred).ok());
      EXPECT_TRUE(sessions_.Turn({tenant, kTransferred}, "hello", 5).ok());
    }
  }
  // Exports a session. A turn that has just ended may hold it for a moment longer.
  absl::StatusOr<std::shared_ptr<SessionExport>> Export(const std::string& tenant) {
    absl::StatusOr<std::shared_ptr<SessionExport>> exported;
    EXPECT_TRUE(WaitUntil([&] {
      exported = sessions_.Export({tenant, kTransferred});
      return !absl::IsAborted(exported.status());
    }));
    return exported;
  }
  static std::string ReadAll(SessionExport& file) {
    std::string all, piece;
    do {
      EXPECT_TRUE(file.Read(1000, &piece).ok());
      all += piece;
    } while (!piece.empty());
    return all;
  }

  TenantSessions sessions_{{.tenants = {{.name = "a", .quotas = {.transfers = 2}},
                                        {.name = "b", .quotas = {.transfers = 0}}},
                            .has_store = true,
                            .max_transfers = 3}};
};

TEST_F(TransfersTest, AreLimitedByTenantAndInTotal) {
  auto first = Export("a");
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = sessions_.BeginImport("a");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(sessions_.UseOf("a").transfers, 2u);
  const std::string of_tenant = "quota transfers: the tenant has 2 exports and imports that run";
  ExpectRefusal(Export("a").status(), of_tenant);
  ExpectRefusal(sessions_.BeginImport("a").status(), of_tenant);
  auto third = Export("b");
  ASSERT_TRUE(third.ok()) << third.status();
  const std::string of_server =
      "sessions.max_transfers: 3 exports and imports run, and the limit is 3";
  ExpectRefusal(Export("b").status(), of_server);
  ExpectRefusal(sessions_.BeginImport("b").status(), of_server);
  EXPECT_EQ(sessions_.UseOf("a").transfers, 2u);
  EXPECT_EQ(sessions_.UseOf("b").transfers, 1u);

  (*second)->ReturnPlace();
  EXPECT_TRUE(Export("b").ok()) << "its place was given back";
  ASSERT_TRUE(sessions_.Import("a", **third).ok());
  third->reset();
  first->reset();
  for (const char* tenant : {"a", "b"}) {
    EXPECT_EQ(sessions_.UseOf(tenant).transfers, 0u);
  }
}

TEST_F(TransfersTest, CallsThatFailGiveBackWhatTheyTook) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(absl::IsNotFound(sessions_.Export({"a", {3, 4}}).status()));
    EXPECT_TRUE(absl::IsNotFound(sessions_.Export({"unknown", kTransferred}).status()));
    EXPECT_TRUE(absl::IsPermissionDenied(sessions_.BeginImport("unknown").status()));
    EXPECT_EQ(sessions_.UseOf("a").transfers, 0u);
  }
}

TEST_F(TransfersTest, TheCachesOfAnExportCountUntilTheyAreRead) {
  const uint64_t before = sessions_.UseOf("a").cache_bytes;
  auto exported = Export("a");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(sessions_.UseOf("a").cache_bytes, before + kStateBytes);
  ASSERT_TRUE(sessions_.Close({"a", kTransferred}).ok());
  EXPECT_EQ(sessions_.UseOf("a").cache_bytes, kStateBytes) << "the export still has them";
  ReadAll(**exported);
  EXPECT_EQ(sessions_.UseOf("a").cache_bytes, 0u);
  EXPECT_EQ(sessions_.UseOf("a").transfers, 1u) << "until it is destroyed";

  auto dropped = Export("b");
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  const uint64_t held = sessions_.UseOf("b").cache_bytes;
  dropped->reset();
  EXPECT_EQ(sessions_.UseOf("b").cache_bytes, held - kStateBytes);
}

}  // namespace
}  // namespace longstream
