// JSON from files and callers, read as values of the template engine.
#include "service/jinja/values/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace longstream::chat {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& json) {
  const auto value = ReadJson(json, /*is_foreign=*/true);
  return value.ok() ? "" : std::string(value.status().message());
}

TEST(JsonReaderTest, WholeNumbersBeyond64Bits) {
  for (const char* number : {"9223372036854775808", "1000000000000000019884624838656"}) {
    EXPECT_THAT(Refusal(number), HasSubstr("a whole number exceeds 64 bits")) << number;
    const auto value = ReadJson(number, /*is_foreign=*/false);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_TRUE(value->is_float()) << number;
  }
  for (const char* number : {"9223372036854775807", "-9223372036854775808"}) {
    const auto value = ReadJson(number, /*is_foreign=*/true);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_TRUE(value->is_int()) << number;
  }
}

TEST(JsonReaderTest, DepthIsBounded) {
  const auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(Refusal(nested(100)), "");
  EXPECT_THAT(Refusal(nested(101)), HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(Refusal(std::string(1 << 20, '[')), HasSubstr("nested deeper than 100 levels"));
}

TEST(JsonReaderTest, NotJson) {
  EXPECT_THAT(Refusal(R"({"a": )"), HasSubstr("not JSON at byte"));
  EXPECT_THAT(Refusal(""), HasSubstr("not JSON at byte"));
}

// Lists of small values take many times the bytes of their text.
TEST(JsonReaderTest, TheMemoryOfTheValuesIsBounded) {
  std::string json = "[[]";
  for (int i = 0; i < 1000; ++i) json += ",[]";
  json += "]";
  uint64_t bytes = 0;
  ASSERT_TRUE(ReadJson(json, /*is_foreign=*/true, 1 << 20, &bytes).ok());
  EXPECT_GT(bytes, 1000 * (sizeof(List) + sizeof(Value)));
  EXPECT_TRUE(ReadJson(json, true, 2 * bytes).ok());
  const auto value = ReadJson(json, true, bytes / 2);
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(value.status().message(),
            absl::StrCat("the values take more than ", bytes / 2, " bytes of memory"));
  for (const char* small :
       {R"("a text that is longer than the limit")", R"({"key": 1})", "[1, 2]"}) {
    EXPECT_FALSE(ReadJson(small, true, 20).ok()) << small;
  }
}

}  // namespace
}  // namespace longstream::chat
