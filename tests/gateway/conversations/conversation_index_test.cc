#include "gateway/conversations/conversation_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/gateway/conversations/keys_of.h"

namespace longstream::gateway {
namespace {

using Keys = std::vector<ConversationKey>;
using Found = ConversationIndex::Found;

class ConversationIndexTest : public testing::Test {
 protected:
  void Commit(const std::string& id, const std::string& turn, const std::string& text) {
    index_.Commit(id, turn, KeysOf(text));
  }
  void AddWith(const std::string& id, const std::string& turn, const std::string& text) {
    index_.Add({id, "owner"});
    Commit(id, turn, text);
  }
  // "<session> <turn> <length>", with "taken" if it is so.
  std::string Find(const std::string& text) {
    const std::optional<Found> found = index_.Find(KeysOf(text));
    if (!found.has_value()) return "none";
    return found->session_id + " " + found->turn_id + " " + std::to_string(found->length) +
           (found->taken ? " taken" : "");
  }
  std::string TakeOldest(bool if_needed = false) {
    const auto session = if_needed ? index_.TakeBeyondLimits() : index_.TakeOldest();
    return session.has_value() ? session->id : "none";
  }

  ConversationIndex index_{{.sessions = 3, .keys = 20}};
};

TEST_F(ConversationIndexTest, FindsTheLongestBeginning) {
  EXPECT_EQ(Find("abc"), "none");
  EXPECT_EQ(Find(""), "none");
  AddWith("s", "t1", "ab");
  EXPECT_EQ(Find("abc"), "s t1 2 taken");
  EXPECT_EQ(Find("abc"), "s t1 2") << "another request uses it";
  Commit("s", "t2", "abcd");
  EXPECT_EQ(Find("abx"), "s t1 2") << "the session has read more";
  EXPECT_EQ(Find("ax"), "s t1 1");
  EXPECT_EQ(Find("abcx"), "s t2 3");
  EXPECT_EQ(Find("x"), "none");
  EXPECT_EQ(Find("abcde"), "s t2 4 taken");
}

TEST_F(ConversationIndexTest, ASessionIsInUseUntilItsTurnEnds) {
  index_.Add({"s", "o"});
  EXPECT_EQ(TakeOldest(), "none") << "a new session is in use";
  Commit("s", "t1", "ab");
  EXPECT_EQ(Find("ab"), "s t1 2 taken");
  EXPECT_EQ(TakeOldest(), "none");
  index_.Release("s");
  EXPECT_EQ(Find("ab"), "s t1 2 taken") << "as before the turn that failed";
  index_.Remove("s");
  EXPECT_EQ(Find("ab"), "none");
  EXPECT_EQ(index_.num_sessions(), 0u);
}

TEST_F(ConversationIndexTest, AForkTakesOnlyTheBeginningsThatAreNew) {
  AddWith("s", "t1", "ab");
  AddWith("f", "t2", "abc");
  EXPECT_EQ(Find("abx"), "s t1 2 taken");
  index_.Release("s");
  EXPECT_EQ(Find("abc"), "f t2 3 taken");
  index_.Remove("s");
  EXPECT_EQ(Find("abx"), "none") << "of the fork only what is new";
  AddWith("g", "t3", "abc");
  EXPECT_EQ(Find("abc"), "g t3 3 taken") << "the last one to read a whole conversation";
  EXPECT_EQ(Find("ab"), "g t3 2");
  index_.Remove("f");
  EXPECT_EQ(Find("abc"), "g t3 3") << "f no longer had it";
}

TEST_F(ConversationIndexTest, SessionsThatAreNotThere) {
  Commit("x", "t", "abc");
  index_.Release("x");
  index_.Remove("x");
  EXPECT_EQ(Find("abc"), "none");
  index_.Add({"s", "o"});
  Commit("s", "t", "");
  EXPECT_EQ(index_.num_sessions(), 1u);
}

TEST_F(ConversationIndexTest, ASessionThatIsAddedAgainIsANewOne) {
  AddWith("s", "t1", "ab");
  index_.Add({"s", "o"});
  EXPECT_EQ(index_.num_sessions(), 1u);
  EXPECT_EQ(Find("ab"), "none");
  Commit("s", "t2", "xy");
  EXPECT_EQ(Find("xy"), "s t2 2 taken");
  index_.Remove("s");
  EXPECT_EQ(index_.num_sessions(), 0u);
}

TEST_F(ConversationIndexTest, TakesTheSessionThatWasNotUsedForTheLongestTime) {
  AddWith("a", "t", "a");
  AddWith("b", "t", "b");
  AddWith("c", "t", "c");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "none") << "no limit is exceeded";
  EXPECT_EQ(Find("ax"), "a t 1 taken");
  index_.Release("a");
  EXPECT_EQ(Find("bx"), "b t 1 taken");
  AddWith("d", "t", "d");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "none") << "b is in use, and does not count";
  AddWith("e", "t", "e");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "c");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "none");
  EXPECT_EQ(TakeOldest(), "a");
  EXPECT_EQ(TakeOldest(), "d");
  EXPECT_EQ(TakeOldest(), "e");
  EXPECT_EQ(TakeOldest(), "none");
  EXPECT_EQ(Find("a"), "none");
}

TEST_F(ConversationIndexTest, KeysHaveALimit) {
  AddWith("a", "t", "0123456789");
  AddWith("b", "t", "abcdefghij");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "none");
  AddWith("c", "t", "x");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "a");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "none");
}

TEST_F(ConversationIndexTest, TheOwnerWithTheMostGivesUpSessions) {
  index_.Add({"a", "small"});
  Commit("a", "t", "a");
  for (const char* const id : {"b", "c", "d"}) {
    index_.Add({id, "large"});
    Commit(id, "t", id);
  }
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "b") << "the small one is older";
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "none");
  EXPECT_EQ(index_.TakeOldestOf("small")->id, "a");
  EXPECT_FALSE(index_.TakeOldestOf("small").has_value());
  // A few long conversations of one owner do not end those of others.
  AddWith("e", "t", "0123456789ABCDEFGHIJKLMNOP");
  EXPECT_EQ(TakeOldest(/*if_needed=*/true), "e");
}

TEST_F(ConversationIndexTest, ForgetsSessionsThatHaveEndedByThemselves) {
  AddWith("a", "t", "a");
  index_.Add({"used", "owner"});
  absl::SleepFor(absl::Milliseconds(20));
  AddWith("b", "t", "b");
  index_.ForgetUnusedFor(absl::Hours(1));
  EXPECT_EQ(index_.num_sessions(), 3u);
  index_.ForgetUnusedFor(absl::Milliseconds(10));
  EXPECT_EQ(index_.num_sessions(), 2u);
  EXPECT_EQ(Find("a"), "none");
  EXPECT_EQ(Find("b"), "b t 1 taken");
}

TEST_F(ConversationIndexTest, KnowsTheOwner) {
  AddWith("a", "t", "a");
  const auto session = index_.TakeOldest();
  ASSERT_TRUE(session.has_value());
  EXPECT_EQ(session->owner, "owner");
}

// Each turn of another session takes one beginning of a session that has very many.
TEST(ConversationIndexTimeTest, TakingKeysFromALongConversation) {
  constexpr size_t kKeys = 500'000;
  constexpr size_t kTaken = 20'000;
  ConversationIndex index({});
  Keys keys(kKeys);
  for (size_t i = 0; i < kKeys; ++i) std::memcpy(keys[i].data(), &i, sizeof(i));
  index.Add({"long", ""});
  index.Commit("long", "t", keys);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kTaken; ++i) {
    const std::string id = "short " + std::to_string(i);
    index.Add({id, ""});
    index.Commit(id, "t", {keys[kKeys - 1 - i]});
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took, std::chrono::seconds(5));
  for (size_t i = 0; i < kTaken; ++i) index.Remove("short " + std::to_string(i));
  EXPECT_FALSE(index.Find({keys[kKeys - 1]}).has_value());
  EXPECT_EQ(index.Find({keys[kKeys - 1 - kTaken]})->session_id, "long");
  index.Remove("long");
  EXPECT_FALSE(index.Find(keys).has_value());
}

// No two requests use a session at once.
TEST(ConversationIndexThreadsTest, ASessionHasOneUser) {
  ConversationIndex index({.sessions = 4, .keys = 100});
  constexpr size_t kThreads = 4;
  constexpr size_t kRequests = 500;  // of each thread
  std::vector<std::atomic<int>> users(kThreads * kRequests);
  std::atomic<size_t> next = 0;
  const auto make_requests = [&] {
    const Keys keys = KeysOf("ab");
    for (size_t i = 0; i < kRequests; ++i) {
      const std::optional<Found> found = index.Find(keys);
      const bool taken = found.has_value() && found->taken;
      const size_t number = taken ? std::stoul(found->session_id) : next++;
      const std::string id = std::to_string(number);
      if (!taken) index.Add({id, ""});
      EXPECT_EQ(++users[number], 1);
      std::this_thread::yield();
      --users[number];
      i % 5 == 0 ? index.Release(id) : index.Commit(id, "t", keys);
      while (index.TakeBeyondLimits().has_value()) {
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(make_requests);
  }
  EXPECT_LE(index.num_sessions(), 4u);
}

}  // namespace
}  // namespace longstream::gateway
