// The file of costs: what is written is read, and nothing else.
#include "service/routing/costs_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr char kKey[] = "weights=0123456789abcdef kernels=avx512 threads=2 processor=AMD EPYC 9R14";

ArmCosts Costs() {
  ArmCosts costs;
  costs.measured_depth = 16384;
  costs.prefill = {1.0 / 3, 1e-9 / 7};
  costs.decode = {0.0123, 0.0};
  costs.context_limit = 40960;
  costs.kv_bytes_per_token = 114688;
  costs.page_tokens = 64;
  costs.fixed_bytes = 123456789012345;
  return costs;
}

TEST(CostsFileTest, RoundTripIsExact) {
  const std::string text = EncodeCosts(kKey, Costs());
  const absl::StatusOr<ArmCosts> read = DecodeCosts(kKey, text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Costs());
  ASSERT_TRUE(DecodeCosts("", EncodeCosts("", ArmCosts())).ok());
}

TEST(CostsFileTest, AnyFlippedBitAndAnyCutIsFound) {
  const std::string text = EncodeCosts(kKey, Costs());
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_TRUE(absl::IsDataLoss(DecodeCosts(kKey, damaged).status())) << at << " bit " << bit;
    }
  }
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeCosts(kKey, text.substr(0, size)).status())) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeCosts(kKey, text + "\n").status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeCosts(kKey, text + text).status()));
}

TEST(CostsFileTest, CostsOfAnotherKeyAreNotUsed) {
  const std::string text = EncodeCosts(kKey, Costs());
  const absl::Status status = DecodeCosts("weights=other", text).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_NE(status.message().find("expected weights=other, found weights=0123"),
            absl::string_view::npos)
      << status;
}

TEST(CostsFileTest, ValuesThatMakeNoSenseAreRefused) {
  ArmCosts costs = Costs();
  costs.decode.slope = -1e-9;
  EXPECT_TRUE(absl::IsDataLoss(DecodeCosts(kKey, EncodeCosts(kKey, costs)).status()));
  costs.decode.slope = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(absl::IsDataLoss(DecodeCosts(kKey, EncodeCosts(kKey, costs)).status()));
}

TEST(CostsFileTest, FilesAreWrittenWholeOrNotAtAll) {
  const TemporaryDirectory directory;
  const std::string path = directory.string() + "/costs.txt";
  EXPECT_TRUE(absl::IsNotFound(ReadCostsFile(path, kKey).status()));
  ASSERT_TRUE(WriteCostsFile(path, kKey, Costs()).ok());
  EXPECT_EQ(*ReadCostsFile(path, kKey), Costs());
  ArmCosts other = Costs();
  other.measured_depth = 1;
  ASSERT_TRUE(WriteCostsFile(path, kKey, other).ok());
  EXPECT_EQ(ReadCostsFile(path, kKey)->measured_depth, 1u);
  std::ofstream(path) << std::string(1 << 20, 'x');
  EXPECT_TRUE(absl::IsDataLoss(ReadCostsFile(path, kKey).status()));
  EXPECT_FALSE(WriteCostsFile(directory.string() + "/none/costs.txt", kKey, Costs()).ok());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1u) << "a temporary file is left";
}

}  // namespace
}  // namespace longstream
