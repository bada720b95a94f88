// The fields of an object, of right and wrong types.
#include "gateway/json/json_object.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace longstream::gateway {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// The error of a call; empty: there is none.
std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const BadRequest& error) {
    return error.what();
  }
}

// Reads the integer of {"n": text}.
std::optional<int64_t> ReadInteger(const std::string& text, int64_t least = kLeast,
                                   int64_t most = kMost) {
  const Json value = ParseJson("{\"n\":" + text + "}");
  return JsonObject(value, "").Integer("n", least, most);
}

std::string IntegerError(const std::string& text, int64_t least = kLeast, int64_t most = kMost) {
  return ErrorOf([&] { ReadInteger(text, least, most); });
}

TEST(JsonObjectTest, Integers) {
  EXPECT_EQ(ReadInteger("7"), 7);
  EXPECT_EQ(ReadInteger("-7"), -7);
  EXPECT_EQ(ReadInteger("100.0"), 100);
  EXPECT_EQ(ReadInteger("1e3"), 1000);
  EXPECT_EQ(ReadInteger("-0"), 0);
  EXPECT_EQ(ReadInteger("-0.0"), 0);
  EXPECT_EQ(ReadInteger("null"), std::nullopt);
  EXPECT_EQ(ReadInteger("9223372036854775807"), kMost);
  EXPECT_EQ(ReadInteger("-9223372036854775808"), kLeast);
  EXPECT_EQ(ReadInteger("-9223372036854775808.0"), kLeast);
  EXPECT_EQ(ReadInteger("9223372036854774784.0"), 9223372036854774784);
  EXPECT_EQ(ReadInteger("9007199254740993"), 9007199254740993) << "more than a double has";
}

TEST(JsonObjectTest, IntegersOfMoreThan64Bits) {
  for (const char* const text : {"9223372036854775808", "9223372036854775808.0",
                                 "18446744073709551615", "18446744073709551616", "9.3e18",
                                 "-9.3e18", "1e19", "1e300", "-1e300", "1.7976931348623157e308"}) {
    const std::string error = IntegerError(text);
    EXPECT_EQ(error.find("n: expected a whole number in -9223372036854775808 ... "
                         "9223372036854775807, found "),
              0u)
        << text << ": " << error;
  }
}

TEST(JsonObjectTest, IntegersAndTheirLimits) {
  EXPECT_EQ(ReadInteger("1", 1, 3), 1);
  EXPECT_EQ(ReadInteger("3", 1, 3), 3);
  EXPECT_EQ(IntegerError("0", 1, 3), "n: expected a whole number in 1 ... 3, found 0");
  EXPECT_EQ(IntegerError("4.0", 1, 3), "n: expected a whole number in 1 ... 3, found 4.0");
  EXPECT_EQ(IntegerError("-1e300", 1, 3), "n: expected a whole number in 1 ... 3, found -1e+300");
  // Doubles do not tell these limits from their neighbours.
  EXPECT_NE(IntegerError("9223372036854775807", 0, kMost - 1), "");
  EXPECT_NE(IntegerError("9007199254740993", 0, 9007199254740992), "");
  EXPECT_NE(IntegerError("-9223372036854775808", kLeast + 1, 0), "");
  EXPECT_EQ(ReadInteger("9223372036854775806", 0, kMost - 1), kMost - 1);
}

TEST(JsonObjectTest, NoIntegers) {
  for (const char* const text : {"1.5", "1e-1", "\"1\"", "true", "[]", "{}", "[1]"}) {
    EXPECT_EQ(IntegerError(text, 1, 3).find("n: expected a whole number in 1 ... 3, found "), 0u)
        << text;
  }
}

TEST(JsonObjectTest, Numbers) {
  const auto number = [](const std::string& text) {
    const Json value = ParseJson("{\"n\":" + text + "}");
    return JsonObject(value, "").Number("n", 0, 2.5);
  };
  const auto error = [&](const std::string& text) { return ErrorOf([&] { number(text); }); };
  EXPECT_EQ(number("0"), 0);
  EXPECT_EQ(number("2.5"), 2.5);
  EXPECT_EQ(number("1"), 1);
  EXPECT_EQ(number("1e-400"), 0);
  EXPECT_EQ(number("null"), std::nullopt);
  EXPECT_EQ(error("2.6"), "n: expected a number in 0.0 ... 2.5, found 2.6");
  EXPECT_EQ(error("-1e-300"), "n: expected a number in 0.0 ... 2.5, found -1e-300");
  for (const char* const text : {"-1", "1e300", "18446744073709551615", "\"1\"", "true", "[]"}) {
    EXPECT_EQ(error(text).find("n: expected a number in 0.0 ... 2.5, found "), 0u) << text;
  }
}

TEST(JsonObjectTest, BooleansAndTexts) {
  const Json value = ParseJson(R"({"yes": true, "no": false, "text": "a\u0000b", "none": null})");
  JsonObject object(value, "a.b");
  EXPECT_EQ(object.Bool("yes"), true);
  EXPECT_EQ(object.Bool("no"), false);
  EXPECT_EQ(object.Bool("none"), std::nullopt);
  EXPECT_EQ(object.Bool("absent"), std::nullopt);
  EXPECT_EQ(object.Text("text"), std::string("a\0b", 3));
  EXPECT_EQ(object.Text("none"), std::nullopt);
  EXPECT_EQ(object.Text("absent"), std::nullopt);
  EXPECT_EQ(ErrorOf([&] { object.Bool("text"); }),
            "a.b.text: expected true or false, found \"a\\u0000b\"");
  EXPECT_EQ(ErrorOf([&] { object.Text("yes"); }), "a.b.yes: expected a string, found true");
  object.ExpectAllRead();
}

TEST(JsonObjectTest, TheFieldThatIsWrong) {
  const Json value = ParseJson(R"({"n": "x"})");
  try {
    JsonObject(value, "options").Integer("n", 0, 1);
    FAIL();
  } catch (const BadRequest& error) {
    EXPECT_EQ(error.param(), "options.n");
  }
  EXPECT_STREQ(BadRequest("", "wrong").what(), "wrong");
}

TEST(JsonObjectTest, OnlyObjects) {
  const auto error = [](const Json& value) {
    return ErrorOf([&] { JsonObject(value, "messages[0]"); });
  };
  EXPECT_EQ(error(Json::object()), "");
  EXPECT_EQ(error(Json::array()), "messages[0]: expected an object, found an array");
  EXPECT_EQ(error("text"), "messages[0]: expected an object, found a string");
  EXPECT_EQ(error(nullptr), "messages[0]: expected an object, found a null");
  EXPECT_EQ(error(1.5), "messages[0]: expected an object, found a number");
}

TEST(JsonObjectTest, Refuse) {
  const Json value = ParseJson(R"({"n": 1, "none": null, "list": []})");
  JsonObject object(value, "");
  const auto refuse = [&](const char* name, const Json& allowed) {
    return ErrorOf([&] { object.Refuse(name, "is not offered", allowed); });
  };
  EXPECT_EQ(refuse("n", nullptr), "n: is not offered");
  EXPECT_EQ(refuse("n", 2), "n: is not offered");
  EXPECT_EQ(refuse("n", 1), "");
  EXPECT_EQ(refuse("none", nullptr), "");
  EXPECT_EQ(refuse("absent", 2), "");
  EXPECT_EQ(refuse("list", Json::array()), "");
  object.ExpectAllRead();
}

TEST(JsonObjectTest, ExpectAllRead) {
  const Json value = ParseJson(R"({"a": 1, "b": 2, "none": null, "c": 3})");
  JsonObject object(value, "");
  EXPECT_EQ(ErrorOf([&] { object.ExpectAllRead(); }), "a: this field is not known here");
  object.Integer("a", 0, 9);
  object.Ignore({"c", "absent"});
  EXPECT_EQ(ErrorOf([&] { object.ExpectAllRead(); }), "b: this field is not known here");
  object.Find("b");
  object.ExpectAllRead();
}

// An error repeats little of the request, and is UTF-8 if the request is.
TEST(JsonObjectTest, LongNamesAndValuesAreCut) {
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "\xe2\x82\xac";
  Json value = Json::object();
  value["n"] = euros;
  value[euros] = 1;
  JsonObject object(value, "path");
  const std::string wrong = ErrorOf([&] { object.Integer("n", 0, 1); });
  EXPECT_LT(wrong.size(), 150u);
  EXPECT_NE(wrong.find("\xe2\x82\xac..."), std::string::npos);
  const std::string unknown = ErrorOf([&] { object.ExpectAllRead(); });
  EXPECT_EQ(unknown, "path." + euros.substr(0, 60) + "...: this field is not known here");
}

TEST(JsonObjectTest, Shown) {
  EXPECT_EQ(Shown(1), "1");
  EXPECT_EQ(Shown("a\n"), "\"a\\n\"");
  EXPECT_EQ(Shown(std::string(58, 'a')), "\"" + std::string(58, 'a') + "\"");
  EXPECT_EQ(Shown(std::string(59, 'a')), "\"" + std::string(59, 'a') + "...");
  EXPECT_EQ(Shown("\xff"), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace longstream::gateway
