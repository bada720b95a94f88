#include "gateway/responses/response_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/responses/byte_budget.h"

namespace longstream::gateway {
namespace {

std::vector<v1::Message> Said(const std::string& content) {
  v1::Message message;
  message.set_role("user");
  message.set_content(content);
  return {message};
}

Conversation::Ptr First(const std::string& content) {
  return std::make_shared<Conversation>(nullptr, Said(content));
}

// The conversation of a response; "none": there is no such response.
std::string TextOf(const ResponseLog& log, const std::string& id, const std::string& owner = "") {
  const auto found = log.Find(id, owner);
  if (!found.has_value()) return "none";
  if (found->conversation == nullptr) return "no conversation";
  std::string text;
  for (const v1::Message& message : found->conversation->Messages()) text += message.content();
  return text;
}

Conversation::Ptr Behind(ResponseLog& log, const std::string& id, const std::string& owner,
                         const std::string& content) {
  return std::make_shared<Conversation>(log.Find(id, owner)->conversation, Said(content));
}

TEST(ResponseLogTest, AConversationHasAllThatCameBefore) {
  ResponseLog log({.bytes = 1 << 20});
  log.Add("1", "alice", {First("a"), "{1}", nullptr});
  log.Add("2", "alice", {Behind(log, "1", "alice", "b"), "{2}", nullptr});
  log.Add("3", "alice", {Behind(log, "1", "alice", "c"), "{3}", nullptr});
  EXPECT_EQ(TextOf(log, "2", "alice"), "ab");
  EXPECT_EQ(TextOf(log, "3", "alice"), "ac");
  EXPECT_EQ(log.Find("3", "alice")->json, "{3}");
}

TEST(ResponseLogTest, AResponseBelongsToItsOwner) {
  ResponseLog log({.bytes = 1 << 20});
  log.Add("1", "alice", {First("a"), "{}", nullptr});
  EXPECT_EQ(TextOf(log, "1", "bob"), "none");
  EXPECT_EQ(TextOf(log, "1", ""), "none");
  EXPECT_FALSE(log.Remove("1", "bob"));
  EXPECT_TRUE(log.Remove("1", "alice"));
  EXPECT_EQ(TextOf(log, "1", "alice"), "none");
  EXPECT_FALSE(log.Remove("1", "alice"));
}

TEST(ResponseLogTest, ARemovedResponseStaysInTheConversationsBehindIt) {
  ResponseLog log({.bytes = 1 << 20});
  log.Add("1", "", {First("a"), "{}", nullptr});
  log.Add("2", "", {Behind(log, "1", "", "b"), "{}", nullptr});
  EXPECT_TRUE(log.Remove("1", ""));
  EXPECT_EQ(TextOf(log, "2", ""), "ab");
}

TEST(ResponseLogTest, TheOldestResponsesGoBeyondTheLimit) {
  ResponseLog log({.bytes = 64 << 10});
  const std::string text(1000, 'x');
  for (int i = 0; i < 200; ++i) {
    log.Add(std::to_string(i), "", {First(text), std::string(1000, 'y'), nullptr});
  }
  EXPECT_EQ(TextOf(log, "0"), "none");
  EXPECT_NE(TextOf(log, "199"), "none");
  int kept = 0;
  for (int i = 0; i < 200; ++i) kept += TextOf(log, std::to_string(i)) == "none" ? 0 : 1;
  // Each takes 2000 bytes and some more for the objects.
  EXPECT_GT(kept, 15);
  EXPECT_LT(kept, 33);
}

// A response that alone exceeds the limit is not kept, and neither are its memory and the others'.
TEST(ResponseLogTest, WhatIsForgottenTakesNoMemory) {
  ResponseLog log({.bytes = 64 << 10});
  log.Add("1", "", {First(std::string(100 << 10, 'x')), "{}", nullptr});
  EXPECT_EQ(TextOf(log, "1"), "none");
  for (int i = 0; i < 20; ++i) {
    log.Add("small", "", {First("x"), "{}", nullptr});
    EXPECT_EQ(TextOf(log, "small"), "x");
    EXPECT_TRUE(log.Remove("small", ""));
  }
}

TEST(ResponseLogTest, ARunningResponseIsNotForgotten) {
  ResponseLog log({.bytes = 4 << 10});
  const auto events = std::make_shared<ResponseStream>();
  log.Add("1", "", {nullptr, "{}", events, /*running=*/true});
  for (int i = 0; i < 10; ++i) {
    log.Add("other", "", {First(std::string(2000, 'x')), "{}", nullptr});
  }
  ASSERT_EQ(TextOf(log, "1"), "no conversation");
  EXPECT_TRUE(log.Find("1", "")->running);
  log.Update("1", "{in progress}");
  EXPECT_EQ(log.Find("1", "")->json, "{in progress}");
  log.End("1", First("ab"), "{done}");
  log.Update("1", "{late}");
  EXPECT_EQ(TextOf(log, "1"), "ab");
  EXPECT_EQ(log.Find("1", "")->json, "{done}");
  EXPECT_FALSE(log.Find("1", "")->running);
  for (int i = 0; i < 10; ++i) {
    log.Add("other", "", {First(std::string(2000, 'x')), "{}", nullptr});
  }
  EXPECT_EQ(TextOf(log, "1"), "none");
}

TEST(ResponseLogTest, ARunningResponseThatIsRemovedIsCancelled) {
  ResponseLog log({.bytes = 1 << 20});
  const auto events = std::make_shared<ResponseStream>();
  log.Add("1", "", {First("a"), "{}", events, /*running=*/true});
  EXPECT_TRUE(log.Remove("1", ""));
  EXPECT_TRUE(events->cancelled());
  log.End("1", First("a"), "{}");  // nothing happens
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

TEST(ResponseLogTest, TheOwnerWithTheMostForgetsResponses) {
  ResponseLog log({.bytes = 64 << 10});
  log.Add("small", "alice", {First("a"), "{}", nullptr});
  for (int i = 0; i < 100; ++i) {
    log.Add(std::to_string(i), "bob", {First(std::string(4000, 'x')), "{}", nullptr});
  }
  EXPECT_EQ(TextOf(log, "small", "alice"), "a");
  EXPECT_EQ(TextOf(log, "0", "bob"), "none");
  EXPECT_NE(TextOf(log, "99", "bob"), "none");
}

TEST(ResponseLogTest, AnOwnerHasFewRunningResponses) {
  ResponseLog log({.running_of_owner = 2});
  const auto add = [&log](const std::string& id, const std::string& owner) {
    return log.Add(id, owner, {nullptr, "{}", std::make_shared<ResponseStream>(), true});
  };
  EXPECT_TRUE(add("1", "alice"));
  EXPECT_TRUE(add("2", "alice"));
  EXPECT_FALSE(add("3", "alice"));
  EXPECT_TRUE(add("4", "bob"));
  EXPECT_FALSE(log.Find("3", "alice").has_value());
  log.End("1", First("a"), "{}");
  EXPECT_TRUE(add("5", "alice"));
  EXPECT_FALSE(add("6", "alice"));
  EXPECT_TRUE(log.Remove("2", "alice"));
  EXPECT_TRUE(add("7", "alice"));
}

TEST(ResponseLogTest, TheEventsOfAnEndedResponseCount) {
  ResponseLog log({.bytes = 64 << 10});
  const auto events = std::make_shared<ResponseStream>();
  log.Add("1", "", {nullptr, "{}", events, /*running=*/true});
  log.End("1", First("a"), "{}");
  events->Send("data: " + std::string(100 << 10, 'x') + "\n\n");
  EXPECT_EQ(TextOf(log, "1"), "a");
  log.CountEvents("1");
  EXPECT_EQ(TextOf(log, "1"), "none");
}

// A conversation of as many parts as allowed ends, also on the small stack of a thread.
TEST(ConversationTest, TheLongestOneEnds) {
  std::thread([] {
    Conversation::Ptr conversation;
    for (size_t i = 0; i < Conversation::kMostParts; ++i) {
      conversation = std::make_shared<Conversation>(std::move(conversation), Said("x"));
    }
    EXPECT_EQ(conversation->parts(), Conversation::kMostParts);
    EXPECT_EQ(conversation->Messages().size(), Conversation::kMostParts);
    EXPECT_GT(conversation->bytes(), Conversation::kMostParts);
  }).join();
}

TEST(ByteBudgetTest, BytesComeBack) {
  ByteBudget budget(100);
  std::shared_ptr<void> first = budget.Take(60);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(budget.Take(41), nullptr);
  const std::shared_ptr<void> copy = first;
  first = nullptr;
  EXPECT_EQ(budget.Take(41), nullptr);
  const std::shared_ptr<void> second = budget.Take(40);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(budget.Take(1), nullptr);
}

}  // namespace
}  // namespace longstream::gateway
