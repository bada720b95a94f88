#include "gateway/conversations/conversation_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace longstream::gateway {
namespace {

TEST(ConversationKeyTest, IsADigestOfAllTexts) {
  const ConversationKey begin{};
  const ConversationKey key = NextKey(begin, {"user", "hello"});
  EXPECT_EQ(NextKey(begin, {"user", "hello"}), key);
  EXPECT_NE(key, begin);
  EXPECT_NE(NextKey(key, {"user", "hello"}), key);
}

// Texts that are equal when they are put together have different keys.
TEST(ConversationKeyTest, DifferentPartsHaveDifferentKeys) {
  const std::string length("\x01\0\0\0\0\0\0\0", 8);
  const ConversationKey begin{};
  const ConversationKey a = NextKey(begin, {"a"});
  const std::set<ConversationKey> keys = {
      begin,
      NextKey(begin, {}),
      NextKey(begin, {""}),
      NextKey(begin, {"", ""}),
      a,
      NextKey(begin, {"b"}),
      NextKey(begin, {"ab"}),
      NextKey(begin, {"a", "b"}),
      NextKey(begin, {"", "ab"}),
      NextKey(begin, {"ab", ""}),
      NextKey(begin, {"a" + length + "b"}),
      NextKey(begin, {std::string("a\0", 2)}),
      NextKey(a, {}),
      NextKey(a, {""}),
      NextKey(a, {"b"}),
      NextKey(NextKey(begin, {"b"}), {"a"}),
  };
  EXPECT_EQ(keys.size(), 16u);
}

}  // namespace
}  // namespace longstream::gateway
