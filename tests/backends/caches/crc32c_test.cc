// CRC-32C against the vectors of RFC 3720, appendix B.4.
#include "backends/caches/crc32c.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <string>

namespace longstream {
namespace {

TEST(Crc32cTest, MatchesThePublishedVectors) {
  std::array<uint8_t, 32> bytes{};
  EXPECT_EQ(ExtendCrc32c(0, bytes.data(), bytes.size()), 0x8a9136aau);
  bytes.fill(0xff);
  EXPECT_EQ(ExtendCrc32c(0, bytes.data(), bytes.size()), 0x62a8ab43u);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  EXPECT_EQ(ExtendCrc32c(0, bytes.data(), bytes.size()), 0x46dd794eu);
  std::iota(bytes.rbegin(), bytes.rend(), uint8_t{0});
  EXPECT_EQ(ExtendCrc32c(0, bytes.data(), bytes.size()), 0x113fdb5cu);
  EXPECT_EQ(ExtendCrc32c(0, "123456789", 9), 0xe3069283u);
}

TEST(Crc32cTest, PiecesGiveWhatTheWholeGives) {
  const std::string text = "a text that is no multiple of eight bytes long";
  const uint32_t whole = ExtendCrc32c(0, text.data(), text.size());
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = ExtendCrc32c(0, text.data(), cut);
    EXPECT_EQ(ExtendCrc32c(first, text.data() + cut, text.size() - cut), whole) << cut;
  }
}

TEST(Crc32cTest, TablesGiveWhatTheInstructionGives) {
  std::array<uint8_t, 100> bytes{};
  std::iota(bytes.begin(), bytes.end(), uint8_t{7});
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; size <= bytes.size() - begin; ++size) {
      EXPECT_EQ(ExtendCrc32cByTables(5, bytes.data() + begin, size),
                ExtendCrc32c(5, bytes.data() + begin, size))
          << begin << ", " << size;
    }
  }
}

}  // namespace
}  // namespace longstream
