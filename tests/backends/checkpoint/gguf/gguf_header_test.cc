// The header of a GGUF file: what is read from a valid one, and the sentence about each damage.
#include "backends/checkpoint/gguf/gguf_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/backends/checkpoint/checkpoint_files.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/checkpoint/gguf/gguf_bytes.h"

namespace longstream {
namespace {

using ::testing::ElementsAre;

GgufHeader Parse(const std::string& bytes) {
  return ParseGguf(AsBytes(bytes), bytes.size(), "m.gguf").value();
}

void ExpectRefused(ls_code code, const std::string& sentence, const std::string& bytes) {
  ExpectError(code, "m.gguf: " + sentence, [&] { Parse(bytes); });
}

TEST(GgufHeaderTest, ReadsValuesOfEveryType) {
  const std::string bytes = GgufBytes()
                                .Raw("u8", 0, BytesOf<uint8_t>(200))
                                .Raw("i8", 1, BytesOf<int8_t>(-3))
                                .Raw("u16", 2, BytesOf<uint16_t>(60000))
                                .Raw("i16", 3, BytesOf<int16_t>(-300))
                                .U32("u32", 7)
                                .Raw("i32", 5, BytesOf<int32_t>(-7))
                                .F32("f32", 1e-6f)
                                .Bool("yes", true)
                                .Text("text", "ä")
                                .Raw("u64", 10, BytesOf<uint64_t>(UINT64_MAX))
                                .Raw("i64", 11, BytesOf<int64_t>(INT64_MIN))
                                .Raw("f64", 12, BytesOf<double>(0.1))
                                .Texts("texts", {"a", "", "bc"})
                                .I32s("i32s", {1, -2})
                                .F32s("f32s", {0.5f, -1.0f})
                                .Bools("bools", {true, false})
                                .Bytes();
  const GgufHeader header = Parse(bytes);
  const auto at = [&](const char* key) { return header.metadata.find(key)->second; };
  EXPECT_EQ(at("u8").Integer(), 200);
  EXPECT_EQ(at("i8").Integer(), -3);
  EXPECT_EQ(at("u16").Integer(), 60000);
  EXPECT_EQ(at("i16").Integer(), -300);
  EXPECT_EQ(at("u32").Integer(), 7);
  EXPECT_EQ(at("i32").Integer(), -7);
  EXPECT_EQ(at("i64").Integer(), INT64_MIN);
  EXPECT_EQ(at("u64").Integer(), std::nullopt);  // exceeds int64_t
  EXPECT_EQ(at("u64").Found(), "18446744073709551615");
  EXPECT_EQ(at("f32").Number(), double{1e-6f});
  EXPECT_EQ(at("f32").NumberText(), "1e-06");
  EXPECT_EQ(at("f64").NumberText(), "0.1");
  EXPECT_EQ(at("yes").Bool(), true);
  EXPECT_EQ(at("yes").Integer(), std::nullopt);
  EXPECT_EQ(at("text").String(), "ä");
  EXPECT_THAT(at("texts").Strings().value(), ElementsAre("a", "", "bc"));
  EXPECT_THAT(at("i32s").Integers(2).value(), ElementsAre(1, -2));
  EXPECT_EQ(at("i32s").Integers(1), std::nullopt);
  EXPECT_THAT(at("f32s").Floats().value(), ElementsAre(0.5f, -1.0f));
  EXPECT_THAT(at("bools").Bools(2).value(), ElementsAre(true, false));
}

TEST(GgufHeaderTest, ReadsTensorsInTheOrderOfTheirData) {
  const std::string bytes = GgufBytes(2)
                                .Tensor("late", {2, 3}, 0, std::string(24, 'x'), 64)
                                .Tensor("early", {32}, 8, std::string(34, 'y'), 0)
                                .Tensor("", {}, 0, "four", 96)
                                .Bytes();
  const GgufHeader header = Parse(bytes);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "early");
  EXPECT_EQ(header.tensors[0].type->name, "Q8_0");
  EXPECT_EQ(header.tensors[0].num_bytes, 34u);
  EXPECT_EQ(header.tensors[0].offset, header.data_begin);
  EXPECT_THAT(header.tensors[1].shape, ElementsAre(3, 2));
  EXPECT_EQ(header.tensors[1].num_bytes, 24u);
  EXPECT_THAT(header.tensors[2].shape, ElementsAre());
}

TEST(GgufHeaderTest, AsksForMoreBytesUntilTheHeaderIsThere) {
  const std::string bytes = GgufBytes().Text("key", "value").Tensor("t", {1}, 0, "four").Bytes();
  const uint64_t begin = Parse(bytes).data_begin;
  for (size_t size = 0; size < bytes.size(); ++size) {
    // An exact copy, so that a sanitizer catches a byte read too far.
    const std::vector<char> front(bytes.begin(), bytes.begin() + static_cast<int64_t>(size));
    const auto header = ParseGguf(std::as_bytes(std::span(front)), bytes.size(), "m.gguf");
    EXPECT_TRUE(header.has_value() || size < begin) << size;
    EXPECT_FALSE(header.has_value() && size < 24) << size;
  }
}

TEST(GgufHeaderTest, RefusesEveryShorterFile) {
  const std::string bytes =
      GgufBytes().Text("key", "value").Tensor("t", {3, 2}, 0, std::string(24, 'x')).Bytes();
  for (size_t size = 0; size + 8 < bytes.size(); ++size) {
    ExpectError(LS_DATA_LOSS, ::testing::StartsWith("m.gguf: "),
                [&] { Parse(bytes.substr(0, size)); });
  }
}

TEST(GgufHeaderTest, RefusesOtherFilesAndVersions) {
  ExpectRefused(LS_DATA_LOSS, "is no GGUF file: expected the first bytes \"GGUF\", found \"GGML\"",
                "GGML" + std::string(20, '\0'));
  ExpectRefused(LS_DATA_LOSS, "expected the file itself, found a pointer of Git LFS to it",
                "version https://git-lfs.github.com/spec/v1\n");
  ExpectRefused(LS_UNIMPLEMENTED, "has version 1, expected 2 or 3", GgufBytes(1).Bytes());
  ExpectRefused(LS_UNIMPLEMENTED, "has version 4, expected 2 or 3", GgufBytes(4).Bytes());
  ExpectRefused(LS_UNIMPLEMENTED, "is big-endian, expected a little-endian file",
                GgufBytes(0x03000000).Bytes());
}

TEST(GgufHeaderTest, RefusesCountsAndLengthsBeyondTheFile) {
  ExpectRefused(LS_DATA_LOSS,
                "18446744073709551615 tensors and 0 metadata values, expected at most 65536 and "
                "65536",
                GgufBytes().StateCounts(UINT64_MAX, 0).Bytes());
  ExpectRefused(LS_DATA_LOSS,
                "0 tensors and 65537 metadata values, expected at most 65536 and 65536",
                GgufBytes().StateCounts(0, 65537).Bytes());
  ExpectRefused(LS_DATA_LOSS,
                "the value of \"k\" takes 18446744073709551615 bytes at byte 45, found a file of "
                "64 bytes",
                GgufBytes().Raw("k", 8, BytesOf(UINT64_MAX)).Bytes());
  ExpectRefused(
      LS_DATA_LOSS, "the value of \"k\" has 9223372036854775807 elements",
      GgufBytes().Raw("k", 9, BytesOf<uint32_t>(4) + BytesOf<uint64_t>(INT64_MAX)).Bytes());
  ExpectRefused(LS_DATA_LOSS,
                "the value of \"k\" takes 4000 bytes at byte 49, found a file of 64 bytes",
                GgufBytes().Raw("k", 9, BytesOf<uint32_t>(4) + BytesOf<uint64_t>(1000)).Bytes());
}

TEST(GgufHeaderTest, RefusesUnknownTypesAndRepeatedKeys) {
  ExpectRefused(LS_UNIMPLEMENTED, "\"k\" has a value of type 13, expected a type from 0 to 12",
                GgufBytes().Raw("k", 13, BytesOf<uint64_t>(0)).Bytes());
  ExpectRefused(LS_UNIMPLEMENTED, "\"k\" has an array of arrays, expected a type from 0 to 12",
                GgufBytes().Raw("k", 9, BytesOf<uint32_t>(9) + BytesOf<uint64_t>(0)).Bytes());
  ExpectRefused(LS_DATA_LOSS, "the key \"k\" is there twice",
                GgufBytes().U32("k", 1).U32("k", 1).Bytes());
  ExpectRefused(LS_DATA_LOSS, "general.alignment must be a power of two up to 1048576, found 24",
                GgufBytes().U32("general.alignment", 24).Bytes());
  ExpectRefused(LS_DATA_LOSS, "general.alignment must be a power of two up to 1048576, found 0",
                GgufBytes().U32("general.alignment", 0).Bytes());
}

TEST(GgufHeaderTest, RefusesTensorsThatDoNotFit) {
  const std::string four = "four";
  const auto with = [](const std::vector<uint64_t>& extents, uint32_t type, int64_t offset = -1) {
    return GgufBytes().Tensor("t", extents, type, std::string(64, 'x'), offset).Bytes();
  };
  ExpectRefused(LS_DATA_LOSS, "tensor \"t\" has 5 extents, expected at most 4",
                with({1, 1, 1, 1, 1}, 0));
  ExpectRefused(LS_DATA_LOSS,
                "tensor \"t\" has an extent of 0, expected at least 1 and fewer than 2^63 elements",
                with({2, 0}, 0));
  ExpectRefused(LS_DATA_LOSS,
                "tensor \"t\" has an extent of 4294967296, expected at least 1 and fewer than 2^63 "
                "elements",
                with({uint64_t{1} << 32, uint64_t{1} << 32}, 0));
  ExpectRefused(LS_DATA_LOSS, "tensor \"t\" has 4611686018427387904 elements, expected fewer",
                with({uint64_t{1} << 62}, 0));
  ExpectRefused(LS_DATA_LOSS,
                "tensor \"t\" of type Q4_K has rows of 32 elements, expected a multiple of 256",
                with({32}, 12));
  ExpectRefused(LS_UNIMPLEMENTED, "tensor \"t\" has the type 4, which is unknown", with({32}, 4));
  ExpectRefused(LS_DATA_LOSS,
                "tensor \"t\" has 68 bytes at byte 0 of the data, found 64 bytes of data",
                with({17}, 0));
  ExpectRefused(LS_DATA_LOSS,
                "tensor \"t\" has 4 bytes at byte 96 of the data, found 64 bytes of data",
                with({1}, 0, 96));
  ExpectRefused(LS_DATA_LOSS,
                "tensor \"t\" begins at byte 4 of the data, expected a multiple of 32",
                with({1}, 0, 4));
  ExpectRefused(
      LS_DATA_LOSS, "tensor \"b\" overlaps tensor \"a\"",
      GgufBytes().Tensor("a", {16}, 0, std::string(64, 'x')).Tensor("b", {1}, 0, four, 32).Bytes());
  ExpectRefused(LS_DATA_LOSS, "tensor \"a\" is there twice",
                GgufBytes().Tensor("a", {1}, 0, four).Tensor("a", {1}, 0, four).Bytes());
}

TEST(GgufHeaderTest, ReadsALongHeaderPieceByPiece) {
  const std::string long_text(3 << 20, 'x');
  const std::string bytes = GgufBytes().Text("long", long_text).Tensor("t", {1}, 0, "four").Bytes();
  uint64_t most = 0;
  const GgufFront front =
      ReadGgufFront(bytes.size(), "m.gguf", [&](uint64_t offset, std::span<std::byte> to) {
        ASSERT_LE(offset + to.size(), bytes.size());
        std::memcpy(to.data(), bytes.data() + offset, to.size());
        most = std::max(most, offset + to.size());
      });
  EXPECT_EQ(front.header.metadata.find("long")->second.String(), long_text);
  EXPECT_EQ(front.bytes.size(), front.header.data_begin);
  EXPECT_EQ(most, bytes.size());
}

}  // namespace
}  // namespace longstream
