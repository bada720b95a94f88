// Session ids: valid ones are accepted, others are refused, and drawn ids differ.
#include "service/sessions/session_id.h"

#include <gtest/gtest.h>

#include <set>

namespace longstream {
namespace {

TEST(SessionId, RoundTripIsLowerCase) {
  const auto id = SessionId::Parse("00112233445566778899AABBCCDDEEFF", "session_id");
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->high, 0x0011223344556677u);
  EXPECT_EQ(id->low, 0x8899aabbccddeeffu);
  EXPECT_EQ(id->ToString(), "00112233445566778899aabbccddeeff");
}

TEST(SessionId, RefusalNamesFieldAndFault) {
  const auto short_id = SessionId::Parse("12", "new_session_id");
  EXPECT_EQ(short_id.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(short_id.status().message(),
            "new_session_id: expected 32 hexadecimal digits, found 2 bytes");
  const auto bad = SessionId::Parse("0011223344556677x899aabbccddeeff", "session_id");
  EXPECT_EQ(bad.status().message(),
            "session_id: expected 32 hexadecimal digits, found 'x' at byte 16");
  // A character of several bytes is repeated whole, because an error must be valid UTF-8.
  const auto accent = SessionId::Parse(
      "001122334455667\xc3\xa9"
      "899aabbccddeeff",
      "page_token");
  EXPECT_EQ(accent.status().message(),
            "page_token: expected 32 hexadecimal digits, found '\xc3\xa9' at byte 15");
  EXPECT_EQ(SessionId::Parse("\xc3\xa9", "page_token").status().message(),
            "page_token: expected 32 hexadecimal digits, found 2 bytes");
}

TEST(SessionId, DrawnIdsDiffer) {
  std::set<SessionId> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(SessionId::Random());
  EXPECT_EQ(ids.size(), 1000u);
}

}  // namespace
}  // namespace longstream
