#include "gateway/responses/response_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
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

// The conversation of a response; "none": there is no such response.
std::string TextOf(const ResponseLog& log, const std::string& id, const std::string& owner = "") {
  const auto found = log.Find(id, owner);
  if (!found.has_value()) return "none";
  std::string text;
  for (const v1::Message& message : found->conversation->Messages()) text += message.content();
  return text;
}

ResponseLog::ConversationPtr Behind(ResponseLog& log, const std::string& id,
                                    const std::string& owner, const std::string& content) {
  return log.Extend(log.Find(id, owner)->conversation, Said(content));
}

TEST(ResponseLogTest, AConversationHasAllThatCameBefore) {
  ResponseLog log(1 << 20);
  log.Add("1", "alice", {log.Extend(nullptr, Said("a")), "{1}", nullptr});
  log.Add("2", "alice", {Behind(log, "1", "alice", "b"), "{2}", nullptr});
  log.Add("3", "alice", {Behind(log, "1", "alice", "c"), "{3}", nullptr});
  EXPECT_EQ(TextOf(log, "2", "alice"), "ab");
  EXPECT_EQ(TextOf(log, "3", "alice"), "ac");
  EXPECT_EQ(log.Find("3", "alice")->json, "{3}");
}

TEST(ResponseLogTest, AResponseBelongsToItsOwner) {
  ResponseLog log(1 << 20);
  log.Add("1", "alice", {log.Extend(nullptr, Said("a")), "{}", nullptr});
  EXPECT_EQ(TextOf(log, "1", "bob"), "none");
  EXPECT_EQ(TextOf(log, "1", ""), "none");
  EXPECT_FALSE(log.Remove("1", "bob"));
  EXPECT_TRUE(log.Remove("1", "alice"));
  EXPECT_EQ(TextOf(log, "1", "alice"), "none");
  EXPECT_FALSE(log.Remove("1", "alice"));
}

TEST(ResponseLogTest, ARemovedResponseStaysInTheConversationsBehindIt) {
  ResponseLog log(1 << 20);
  log.Add("1", "", {log.Extend(nullptr, Said("a")), "{}", nullptr});
  log.Add("2", "", {Behind(log, "1", "", "b"), "{}", nullptr});
  EXPECT_TRUE(log.Remove("1", ""));
  EXPECT_EQ(TextOf(log, "2", ""), "ab");
}

TEST(ResponseLogTest, TheOldestResponsesGoBeyondTheLimit) {
  ResponseLog log(64 << 10);
  const std::string text(1000, 'x');
  for (int i = 0; i < 200; ++i) {
    log.Add(std::to_string(i), "",
            {log.Extend(nullptr, Said(text)), std::string(1000, 'y'), nullptr});
  }
  EXPECT_EQ(TextOf(log, "0"), "none");
  EXPECT_NE(TextOf(log, "199"), "none");
  int kept = 0;
  for (int i = 0; i < 200; ++i) kept += TextOf(log, std::to_string(i)) == "none" ? 0 : 1;
  // Each takes 2000 bytes and a little more.
  EXPECT_GT(kept, 15);
  EXPECT_LT(kept, 33);
}

// A response that alone exceeds the limit is not kept, and neither are its memory and the others'.
TEST(ResponseLogTest, WhatIsForgottenTakesNoMemory) {
  ResponseLog log(64 << 10);
  log.Add("1", "", {log.Extend(nullptr, Said(std::string(100 << 10, 'x'))), "{}", nullptr});
  EXPECT_EQ(TextOf(log, "1"), "none");
  for (int i = 0; i < 20; ++i) {
    log.Add("small", "", {log.Extend(nullptr, Said("x")), "{}", nullptr});
    EXPECT_EQ(TextOf(log, "small"), "x");
    EXPECT_TRUE(log.Remove("small", ""));
  }
}

TEST(ResponseLogTest, ARunningResponseIsNotForgotten) {
  ResponseLog log(4 << 10);
  const auto events = std::make_shared<ResponseStream>();
  log.Add("1", "", {log.Extend(nullptr, Said("a")), "{}", events, /*running=*/true});
  for (int i = 0; i < 10; ++i) {
    log.Add("other", "", {log.Extend(nullptr, Said(std::string(2000, 'x'))), "{}", nullptr});
  }
  ASSERT_EQ(TextOf(log, "1"), "a");
  EXPECT_TRUE(log.Find("1", "")->running);
  log.End("1", log.Extend(log.Find("1", "")->conversation, Said("b")), "{done}");
  EXPECT_EQ(TextOf(log, "1"), "ab");
  EXPECT_EQ(log.Find("1", "")->json, "{done}");
  EXPECT_FALSE(log.Find("1", "")->running);
  for (int i = 0; i < 10; ++i) {
    log.Add("other", "", {log.Extend(nullptr, Said(std::string(2000, 'x'))), "{}", nullptr});
  }
  EXPECT_EQ(TextOf(log, "1"), "none");
}

TEST(ResponseLogTest, ARunningResponseThatIsRemovedIsCancelled) {
  ResponseLog log(1 << 20);
  const auto events = std::make_shared<ResponseStream>();
  log.Add("1", "", {log.Extend(nullptr, Said("a")), "{}", events, /*running=*/true});
  EXPECT_TRUE(log.Remove("1", ""));
  EXPECT_TRUE(events->cancelled());
  log.End("1", log.Extend(nullptr, Said("a")), "{}");  // nothing happens
  EXPECT_EQ(TextOf(log, "1"), "none");
}

TEST(ResponseStreamTest, ReadersFollowFromWhereTheyLike) {
  ResponseStream stream;
  std::string event;
  EXPECT_EQ(stream.Wait(0, absl::Milliseconds(1), &event), ResponseStream::Next::kWait);
  std::vector<std::string> seen;
  std::thread reader([&] {
    std::string next;
    for (size_t i = 1;
         stream.Wait(i, absl::InfiniteDuration(), &next) == ResponseStream::Next::kEvent; ++i) {
      seen.push_back(next);
    }
  });
  EXPECT_TRUE(stream.Send("data: a\n\n: a comment\n\ndata: b\n\n"));
  EXPECT_TRUE(stream.Send(""));
  EXPECT_TRUE(stream.Send("data: c\n\n"));
  stream.End();
  reader.join();
  EXPECT_EQ(seen, (std::vector<std::string>{"data: b\n\n", "data: c\n\n"}));
  EXPECT_EQ(stream.Wait(0, absl::ZeroDuration(), &event), ResponseStream::Next::kEvent);
  EXPECT_EQ(event, "data: a\n\n");
  EXPECT_EQ(stream.Wait(3, absl::ZeroDuration(), &event), ResponseStream::Next::kEnd);
  stream.Cancel();
  EXPECT_FALSE(stream.Send("data: d\n\n"));
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
