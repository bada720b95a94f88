#include "service/security/origin.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace longstream {
namespace {

TEST(OriginTest, Origins) {
  for (const char* const origin :
       {"*", "https://chat.example.com", "http://localhost:3000", "http://[::1]:3000",
        "http://10.0.0.1", "chrome-extension://abcdef", "https://xn--bcher-kva.example:8443"}) {
    EXPECT_EQ(OriginError(origin), std::nullopt) << origin;
  }
}

TEST(OriginTest, OtherTexts) {
  for (const char* const text :
       {"", "null", "**", "chat.example.com", "https://", "://chat", "https://chat.example.com/",
        "https://Chat.example.com", "HTTPS://chat", "https://chat:", "https://:80", "https://a b",
        "https://*.example.com", "https://user@chat", "https://chat\r\nx: y"}) {
    const auto error = OriginError(text);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_NE(error->find("found '" + std::string(text) + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace longstream
