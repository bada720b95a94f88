// Every line of the log is a JSON object, even if the logged text has quotes, line ends or invalid
// UTF-8.
#include "service/metrics/json_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace longstream {
namespace {

using Json = nlohmann::ordered_json;

// The JSON objects that `write` prints on standard error, one per line.
template <typename Write>
std::vector<Json> Lines(const Write& write) {
  testing::internal::CaptureStderr();
  write();
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::vector<Json> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
    EXPECT_TRUE(lines.back().is_object()) << line;
  }
  return lines;
}

TEST(JsonLogTest, TimeLevelEventAndFieldsInThatOrder) {
  const JsonLog log("info");
  const absl::Time before = absl::Now();
  const auto lines = Lines([&] {
    log.Write(LogLevel::kWarning, "model_failed", {{"model", "a"}, {"error", "no \"b\"\n"}});
  });
  ASSERT_EQ(lines.size(), 1u);
  std::vector<std::string> keys;
  for (const auto& [key, value] : lines[0].items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::ElementsAre("time", "level", "event", "model", "error"));
  EXPECT_EQ(lines[0]["level"], "warning");
  EXPECT_EQ(lines[0]["event"], "model_failed");
  EXPECT_EQ(lines[0]["model"], "a");
  EXPECT_EQ(lines[0]["error"], "no \"b\"\n");

  absl::Time time;
  std::string error;
  ASSERT_TRUE(
      absl::ParseTime(absl::RFC3339_full, lines[0]["time"].get<std::string>(), &time, &error))
      << error;
  EXPECT_GE(time, before - absl::Milliseconds(1));
  EXPECT_LE(time, absl::Now());
}

TEST(JsonLogTest, InvalidUtf8IsReplaced) {
  const JsonLog log("info");
  const std::pair<std::string, std::string> cases[] = {
      {"a\xff"
       "b",
       "a\xef\xbf\xbd"
       "b"},                           // a byte that never occurs in UTF-8
      {"\x80", "\xef\xbf\xbd"},        // a continuation byte without its lead byte
      {"x\xe2\x82", "x\xef\xbf\xbd"},  // an incomplete character
      {std::string("\0z", 2), std::string("\0z", 2)},
      {"\xe2\x82\xac", "\xe2\x82\xac"},
  };
  for (const auto& [raw, text] : cases) {
    const std::string& bytes = raw;  // a lambda may not capture a structured binding
    const auto lines = Lines([&] { log.Write(LogLevel::kInfo, bytes, {{bytes, bytes}}); });
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].value("event", ""), text);
    ASSERT_EQ(lines[0].size(), 4u);
    EXPECT_EQ(std::prev(lines[0].end()).key(), text);
    EXPECT_EQ(std::prev(lines[0].end()).value(), text);
  }
}

TEST(JsonLogTest, WritesFromTheLowestLevelOn) {
  const std::pair<const char*, int> cases[] = {
      {"debug", 4}, {"info", 3}, {"warning", 2}, {"error", 1}, {"unheard of", 3}};
  for (const auto& [lowest, written] : cases) {
    const JsonLog log(lowest);
    const auto lines = Lines([&] {
      for (const LogLevel level :
           {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
        log.Write(level, "event");
      }
    });
    EXPECT_EQ(lines.size(), static_cast<size_t>(written)) << lowest;
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines[0]["level"], "error");
  }
}

TEST(JsonLogTest, SomeLinesAreWrittenAtEveryLevel) {
  for (const char* lowest : {"debug", "info", "warning", "error"}) {
    const JsonLog log(lowest);
    const auto lines = Lines([&] { log.WriteAlways("operator_call", {{"name", "ops"}}); });
    ASSERT_EQ(lines.size(), 1u) << lowest;
    EXPECT_EQ(lines[0]["level"], "info");
    EXPECT_EQ(lines[0]["event"], "operator_call");
    EXPECT_EQ(lines[0]["name"], "ops");
  }
}

}  // namespace
}  // namespace longstream
