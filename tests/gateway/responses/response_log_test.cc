#include "gateway/responses/response_log.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace longstream::gateway {
namespace {

std::vector<v1::Message> Said(const std::string& content) {
  v1::Message message;
  message.set_role("user");
  message.set_content(content);
  return {message};
}

std::string TextOf(const ResponseLog::ConversationPtr& conversation) {
  if (conversation == nullptr) return "none";
  std::string text;
  for (const v1::Message& message : conversation->Messages()) text += message.content();
  return text;
}

TEST(ResponseLogTest, AConversationHasAllThatCameBefore) {
  ResponseLog log(1 << 20);
  log.Add("1", "alice", log.Extend(nullptr, Said("a")), "{1}");
  log.Add("2", "alice", log.Extend(log.Find("1", "alice"), Said("b")), "{2}");
  log.Add("3", "alice", log.Extend(log.Find("1", "alice"), Said("c")), "{3}");
  EXPECT_EQ(TextOf(log.Find("2", "alice")), "ab");
  EXPECT_EQ(TextOf(log.Find("3", "alice")), "ac");
  EXPECT_EQ(log.FindJson("3", "alice"), "{3}");
}

TEST(ResponseLogTest, AResponseBelongsToItsOwner) {
  ResponseLog log(1 << 20);
  log.Add("1", "alice", log.Extend(nullptr, Said("a")), "{}");
  EXPECT_EQ(log.Find("1", "bob"), nullptr);
  EXPECT_FALSE(log.FindJson("1", "").has_value());
  EXPECT_FALSE(log.Remove("1", "bob"));
  EXPECT_TRUE(log.Remove("1", "alice"));
  EXPECT_EQ(log.Find("1", "alice"), nullptr);
  EXPECT_FALSE(log.Remove("1", "alice"));
}

TEST(ResponseLogTest, ARemovedResponseStaysInTheConversationsBehindIt) {
  ResponseLog log(1 << 20);
  log.Add("1", "", log.Extend(nullptr, Said("a")), "{}");
  log.Add("2", "", log.Extend(log.Find("1", ""), Said("b")), "{}");
  EXPECT_TRUE(log.Remove("1", ""));
  EXPECT_EQ(TextOf(log.Find("2", "")), "ab");
}

TEST(ResponseLogTest, TheOldestResponsesGoBeyondTheLimit) {
  ResponseLog log(64 << 10);
  const std::string text(1000, 'x');
  for (int i = 0; i < 200; ++i) {
    log.Add(std::to_string(i), "", log.Extend(nullptr, Said(text)), std::string(1000, 'y'));
  }
  EXPECT_EQ(log.Find("0", ""), nullptr);
  EXPECT_NE(log.Find("199", ""), nullptr);
  int kept = 0;
  for (int i = 0; i < 200; ++i) kept += log.Find(std::to_string(i), "") == nullptr ? 0 : 1;
  // Each takes 2000 bytes and a little more.
  EXPECT_GT(kept, 15);
  EXPECT_LT(kept, 33);
}

// A response that alone exceeds the limit is not kept, and neither are its memory and the others'.
TEST(ResponseLogTest, WhatIsForgottenTakesNoMemory) {
  ResponseLog log(64 << 10);
  log.Add("1", "", log.Extend(nullptr, Said(std::string(100 << 10, 'x'))), "{}");
  EXPECT_EQ(log.Find("1", ""), nullptr);
  for (int i = 0; i < 20; ++i) {
    log.Add("small", "", log.Extend(nullptr, Said("x")), "{}");
    EXPECT_NE(log.Find("small", ""), nullptr);
    EXPECT_TRUE(log.Remove("small", ""));
  }
}

// A conversation of many responses ends without deep recursion.
TEST(ResponseLogTest, ALongConversationEnds) {
  ResponseLog log(uint64_t{1} << 30);
  ResponseLog::ConversationPtr conversation;
  for (int i = 0; i < 300'000; ++i) {
    conversation = log.Extend(std::move(conversation), {});
  }
  conversation = nullptr;
}

}  // namespace
}  // namespace longstream::gateway
