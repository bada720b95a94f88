// JSON texts from hostile clients: the limits, and the time and memory that the worst texts take.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "gateway/json/json_object.h"

namespace longstream::gateway {
namespace {

constexpr size_t kLongestBody = 16 << 20;  // RequestLimits' default

std::string ErrorOf(const std::string& text) {
  try {
    ParseJson(text);
    return "";
  } catch (const BadRequest& error) {
    EXPECT_EQ(error.param(), "");
    return error.what();
  }
}

std::string Repeated(const std::string& text, size_t times) {
  std::string repeated;
  repeated.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}

TEST(ParseJsonTest, Objects) {
  EXPECT_EQ(ParseJson(R"( {"b": [1, "x", null], "a": {}} )").dump(),
            R"({"b":[1,"x",null],"a":{}})");
  EXPECT_EQ(ParseJson(R"({"a": 1, "a": 2})").dump(), R"({"a":2})") << "the last one counts";
  EXPECT_EQ(ParseJson("{\"a\": \"\\ud83d\\ude00\"}")["a"], "\xf0\x9f\x98\x80");
}

TEST(ParseJsonTest, NoJson) {
  for (const std::string text : {"",
                                 " ",
                                 "{",
                                 "}",
                                 "{}}",
                                 "{} {}",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{\"a\":1,}",
                                 "{a:1}",
                                 "{\"a\":NaN}",
                                 "{\"a\":Infinity}",
                                 "{\"a\":-}",
                                 "{\"a\":01}",
                                 "{\"a\":+1}",
                                 "{\"a\":.5}",
                                 "{\"a\":1e400}",
                                 "{\"a\":-1e400}",
                                 "{\"a\":0x1}",
                                 "{\"a\":'b'}",
                                 "{\"a\":\"\n\"}",
                                 "{\"a\":\"\\x\"}",
                                 "{\"a\":\"\\ud800\"}",
                                 "{\"a\":\"\xff\"}",
                                 "{\"a\":\"\xc3\"}",
                                 "{\"a\":\"\xed\xa0\x80\"}",
                                 "{\"\xf5\x80\x80\x80\":1}",
                                 "{/**/}",
                                 "{\"a\":tru}"}) {
    EXPECT_EQ(ErrorOf(text).find("this is no valid JSON: "), 0u) << text;
  }
  EXPECT_EQ(ErrorOf(std::string("{\"a\":\"\0\"}", 9)), "the body has a byte 0");
  EXPECT_EQ(ErrorOf(std::string("{}\0]", 4)), "the body has a byte 0");
}

TEST(ParseJsonTest, NoObject) {
  for (const char* const text : {"[]", "1", "null", "true", "\"a\"", "[{}]"}) {
    EXPECT_EQ(ErrorOf(text), "the body is no JSON object") << text;
  }
}

TEST(ParseJsonTest, ErrorsAreShort) {
  EXPECT_LT(ErrorOf("{\"a\":\"" + std::string(1 << 20, 'a')).size(), 400u);
  EXPECT_LT(ErrorOf("{\"a\":" + std::string(1 << 20, '1') + "x").size(), 400u);
  EXPECT_LT(ErrorOf("{\"" + std::string(1 << 20, '\x80') + "\":1}").size(), 400u);
}

TEST(ParseJsonTest, Depth) {
  const auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(ErrorOf(nested(100)), "");
  EXPECT_EQ(ErrorOf(nested(101)), "the JSON has more than 100 levels");
  EXPECT_EQ(ErrorOf("{\"a\":" + std::string(kLongestBody, '[')),
            "the JSON has more than 100 levels");
  EXPECT_EQ(ErrorOf(Repeated("{\"a\":", kLongestBody / 5)), "the JSON has more than 100 levels");
}

TEST(ParseJsonTest, Parts) {
  const std::string error = "the JSON has more than 200000 objects, arrays, members and strings";
  const auto array = [](const std::string& element, size_t size) {
    return "{\"a\":[" + Repeated(element + ",", size) + "0]}";
  };
  for (const char* const element : {"[]", "{}", "\"\"", "\"a\""}) {
    EXPECT_EQ(ErrorOf(array(element, 199'997)), "") << element;
    EXPECT_EQ(ErrorOf(array(element, 199'998)), error) << element;
  }
  EXPECT_EQ(ErrorOf(array("0", 999'999)), "");
  EXPECT_EQ(ErrorOf(array("0", 1'000'000)), "the JSON has more than 1000000 numbers");
}

TEST(ParseJsonTest, Members) {
  const auto object = [](size_t members) {
    std::string text = "{";
    for (size_t i = 0; i < members; ++i) text += "\"" + std::to_string(i) + "\":0,";
    text.back() = '}';
    return text;
  };
  const std::string error = "the JSON has more than 1024 members in one object";
  EXPECT_EQ(ErrorOf(object(1024)), "");
  EXPECT_EQ(ErrorOf(object(1025)), error);
  EXPECT_EQ(ErrorOf("{" + Repeated("\"a\":0,", 1024) + "\"a\":0}"), error) << "equal names count";
  EXPECT_EQ(ErrorOf("{\"a\":" + object(1024) + ",\"b\":" + object(1024) + "}"), "");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostSeconds = 60;
#else
constexpr double kMostSeconds = 4;  // ten times what they take
#endif

// Bytes that the process has taken from malloc.
size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Prints the time and memory of a text, which is as bad as the limits allow.
void Measure(const char* name, const std::string& text) {
  ASSERT_LE(text.size(), kLongestBody) << name;
  const size_t before = AllocatedBytes();
  const auto begin = std::chrono::steady_clock::now();
  const Json value = ParseJson(text);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const size_t held = AllocatedBytes() - before;
  std::printf("%s: %zu bytes, %.3f s, %zu bytes of memory\n", name, text.size(), seconds, held);
  EXPECT_LT(seconds, kMostSeconds) << name;
  EXPECT_LT(held, size_t{8} * kLongestBody) << name;
}

TEST(ParseJsonTest, TheWorstTexts) {
  // The names have equal lengths and long common beginnings.
  std::string members = "{";
  for (int i = 0; i < 1024; ++i) {
    const std::string number = std::to_string(100'000 + i);
    members += "\"" + std::string(60, 'a') + number + "\":0,";
  }
  members.back() = '}';
  Measure("members", "{\"a\":[" + Repeated(members + ",", 194) + "0]}");
  Measure("empty objects", "{\"a\":[" + Repeated("{},", 199'990) + "0]}");
  Measure("strings", "{\"a\":[" + Repeated("\"0123456789abcdef\",", 199'990) + "0]}");
  Measure("numbers", "{\"a\":[" + Repeated("0,", 999'990) + "0]}");
  Measure("fractions", "{\"a\":[" + Repeated("0.1,", 999'990) + "0]}");
  Measure("one string", "{\"a\":\"" + std::string(kLongestBody - 100, 'a') + "\"}");
  Measure("escapes", "{\"a\":\"" + Repeated("\\u20ac", kLongestBody / 6 - 100) + "\"}");
  Measure("one number", "{\"a\":0." + std::string(kLongestBody - 100, '1') + "}");
  Measure("spaces", "{" + std::string(kLongestBody - 100, ' ') + "}");
}

}  // namespace
}  // namespace longstream::gateway
