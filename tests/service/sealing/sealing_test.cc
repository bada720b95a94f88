// Sealed files: what opens, and what does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "service/sealing/block_compression.h"
#include "service/sealing/block_kind.h"
#include "service/sealing/sealed_block.h"
#include "service/sealing/sealer.h"
#include "service/sealing/unsealer.h"
#include "tests/service/sealing/sealed_bytes.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr size_t kBlock = kSealedBlockBytes;
constexpr std::string_view kContext = "a test";

absl::StatusOr<std::string> Open(const Sealing& sealing, std::string_view sealed) {
  return Unseal(sealing.keys, kContext, sealed);
}

// Takes the bytes in pieces, as they come from a disk or a client.
absl::StatusOr<std::string> OpenInPieces(const Sealing& sealing, std::string_view sealed,
                                         size_t piece) {
  Unsealer unsealer(sealing.keys, kContext);
  std::string bytes;
  for (size_t at = 0; at < sealed.size(); at += piece) {
    unsealer.Add(sealed.substr(at, piece));
    while (true) {
      const auto block = unsealer.Next();
      if (!block.ok()) return block.status();
      if (!block->has_value()) break;
      bytes += **block;
    }
    EXPECT_LT(unsealer.held(), kBlockSizeBytes + kMaxSealedBlockBytes);
  }
  if (absl::Status status = unsealer.Finish(); !status.ok()) return status;
  return bytes;
}

// The header of a sealed file, and its blocks with their sizes.
std::vector<std::string> PartsOf(std::string_view sealed) {
  std::vector<std::string> parts = {std::string(sealed.substr(0, kSealedHeaderBytes))};
  sealed.remove_prefix(kSealedHeaderBytes);
  while (!sealed.empty()) {
    size_t size = kBlockSizeBytes;
    for (size_t i = 0; i < kBlockSizeBytes; ++i) {
      size += size_t{static_cast<unsigned char>(sealed[i])} << (8 * i);
    }
    parts.emplace_back(sealed.substr(0, size));
    sealed.remove_prefix(size);
  }
  return parts;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

TEST(SealingTest, OpensWhatItSealed) {
  for (const Compression compression : {Compression::kNone, Compression::kZstd}) {
    const Sealing sealing = SealingWith("a", compression);
    for (const bool plain : {false, true}) {
      for (const size_t size :
           {size_t{0}, size_t{1}, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 3 * kBlock + 1000}) {
        SCOPED_TRACE(size);
        const std::string bytes = SomeBytes(size, 1, plain);
        const std::string sealed = Seal(sealing, kContext, bytes);
        EXPECT_TRUE(Open(sealing, sealed).value() == bytes);
        const size_t blocks = std::max<size_t>(1, (size + kBlock - 1) / kBlock);
        const size_t around = kSealedHeaderBytes + blocks * (kBlockSizeBytes + 1 + kBlockTagBytes);
        if (!plain || compression == Compression::kNone) {
          EXPECT_EQ(sealed.size(), size + around);
        } else if (size > 1000) {
          EXPECT_LT(sealed.size(), size / 10);
        }
        for (const size_t piece : {size_t{1000}, kBlock, size_t{1} << 20}) {
          EXPECT_TRUE(OpenInPieces(sealing, sealed, piece).value() == bytes);
        }
      }
    }
  }
}

TEST(SealingTest, ItDoesNotMatterHowTheBytesCome) {
  const Sealing sealing = SealingWith("a");
  const std::string bytes = SomeBytes(2 * kBlock + 77, 3);
  for (const size_t piece : {size_t{1}, size_t{999}, kBlock, 5 * kBlock}) {
    Sealer sealer(sealing, kContext);
    std::string sealed;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      sealer.Add(std::string_view(bytes).substr(at, piece), &sealed);
    }
    sealer.Finish(&sealed);
    EXPECT_TRUE(Open(sealing, sealed).value() == bytes);
  }
}

TEST(SealingTest, NothingOfTheBytesIsInTheFile) {
  const std::string bytes = SomeBytes(1000, 1, true);
  const Sealing sealing = SealingWith("a");
  const std::string first = Seal(sealing, kContext, bytes);
  EXPECT_EQ(first.find("ppp"), std::string::npos);
  EXPECT_EQ(*SealedBy(first), "a");
  EXPECT_FALSE(SealedBy(bytes).has_value());
  // The same bytes look different each time.
  EXPECT_NE(first, Seal(sealing, kContext, bytes));
}

TEST(SealingTest, AnyKeyOfTheFileOpensAndOthersDoNot) {
  const std::string sealed = Seal(SealingWith("old"), kContext, "bytes");
  EXPECT_EQ(*Open(SealingWith("newo"), sealed), "bytes");
  const absl::Status missing = Open(SealingWith("new"), sealed).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("'o'"));
  // Another key with the same id.
  const Sealing other{.keys = *SealingKeys::Parse("o " + std::string(64, '1'), "test")};
  EXPECT_EQ(Open(other, sealed).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Unseal(SealingWith("old").keys, "another file", sealed).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(SealingTest, BlocksCannotBeMovedRepeatedOrTakenAway) {
  const Sealing sealing = SealingWith("a");
  const std::vector<std::string> parts =
      PartsOf(Seal(sealing, kContext, SomeBytes(3 * kBlock + 5, 1)));
  ASSERT_EQ(parts.size(), 5u);
  ASSERT_TRUE(Open(sealing, Join(parts)).ok());
  for (size_t i = 1; i < parts.size(); ++i) {
    for (size_t j = 1; j < parts.size(); ++j) {
      auto changed = parts;
      if (i != j) std::swap(changed[i], changed[j]);
      if (i == j) changed.erase(changed.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_EQ(Open(sealing, Join(changed)).status().code(), absl::StatusCode::kDataLoss);
      changed = parts;
      changed.insert(changed.begin() + static_cast<ptrdiff_t>(i), parts[j]);
      EXPECT_EQ(Open(sealing, Join(changed)).status().code(), absl::StatusCode::kDataLoss);
    }
  }
  // A block of another file with the same key, context and place.
  const std::vector<std::string> others =
      PartsOf(Seal(sealing, kContext, SomeBytes(3 * kBlock + 5, 1)));
  for (size_t i = 0; i < parts.size(); ++i) {
    auto changed = parts;
    changed[i] = others[i];
    EXPECT_EQ(Open(sealing, Join(changed)).status().code(), absl::StatusCode::kDataLoss) << i;
  }
}

TEST(SealingTest, AFileThatIsCutOffOrLongerDoesNotOpen) {
  const Sealing sealing = SealingWith("a");
  const std::string sealed = Seal(sealing, kContext, SomeBytes(kBlock + 500, 1));
  for (size_t size = 0; size < sealed.size(); size += size % 7 + 50) {
    EXPECT_FALSE(Open(sealing, sealed.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Open(sealing, sealed.substr(0, sealed.size() - 1)).ok());
  EXPECT_FALSE(Open(sealing, sealed + "x").ok());
  EXPECT_FALSE(Open(sealing, sealed + sealed).ok());
}

TEST(SealingTest, AFlippedBitAnywhereDoesNotOpen) {
  const Sealing sealing = SealingWith("a", Compression::kZstd);
  std::string sealed = Seal(sealing, kContext, SomeBytes(700, 1));
  for (size_t offset = 0; offset < sealed.size(); ++offset) {
    for (int bit = 0; bit < 8; ++bit) {
      sealed[offset] = static_cast<char>(sealed[offset] ^ (1 << bit));
      ASSERT_FALSE(Open(sealing, sealed).ok()) << offset;
      sealed[offset] = static_cast<char>(sealed[offset] ^ (1 << bit));
    }
  }
  EXPECT_TRUE(Open(sealing, sealed).ok());
}

// Only a holder of the key can make such a block.
TEST(SealingTest, ABlockThatInflatesToMoreThanABlockDoesNotOpen) {
  const Sealing sealing = SealingWith("a");
  const std::string header = NewSealedHeader(sealing.keys->first());
  const BlockCipher cipher(&sealing.keys->first(), header, kContext);
  for (const size_t size : {kBlock, kBlock + 1, 1000 * kBlock}) {
    std::string block(size, '\0');
    block[0] = kZstdBlock;
    BlockCompressor compressor;
    const auto bytes = compressor.Compress(std::string(size, 'x'), block.data() + 1, size - 1);
    ASSERT_TRUE(bytes.has_value());
    block.resize(1 + *bytes);
    std::string sealed = header;
    cipher.Seal({.index = 0, .is_last = true}, block, &sealed);
    EXPECT_EQ(Open(sealing, sealed).ok(), size == kBlock) << size;
  }
  for (const char kind : {char{2}, char{-1}}) {
    std::string sealed = header;
    cipher.Seal({.index = 0, .is_last = true}, std::string(1, kind), &sealed);
    EXPECT_FALSE(Open(sealing, sealed).ok());
  }
}

}  // namespace
}  // namespace longstream
