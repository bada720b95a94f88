// The normalization forms of Unicode. Long runs of combining marks give the same result as short
// ones.
#include "service/tokenizer/text/unicode_form.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/service/tokenizer/text/times.h"

namespace longstream {
namespace {

std::string InForm(UnicodeForm form, std::string_view text) {
  std::string buffer = "left over";
  const auto normalized = NormalizeUnicode(form, text, &buffer);
  EXPECT_TRUE(normalized.ok()) << normalized.status();
  return std::string(*normalized);
}

std::string Nfc(std::string_view text) { return InForm(UnicodeForm::kNfc, text); }
std::string Nfd(std::string_view text) { return InForm(UnicodeForm::kNfd, text); }
std::string Nfkc(std::string_view text) { return InForm(UnicodeForm::kNfkc, text); }
std::string Nfkd(std::string_view text) { return InForm(UnicodeForm::kNfkd, text); }

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(Nfc(""), "");
  EXPECT_EQ(Nfc("plain"), "plain");
  EXPECT_EQ(Nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(Nfc("a\u0301\u0323"), "\u1ea1\u0301") << "the dot below should be composed first";
  EXPECT_EQ(Nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(Nfc("\u212b\u2126"), "\u00c5\u03a9");
  EXPECT_EQ(Nfc("\u0958"), "\u0915\u093c") << "this character is excluded from composition";
}

TEST(UnicodeForm, Decomposes) {
  EXPECT_EQ(Nfd("\u1ea1\u0301 plain"), "a\u0323\u0301 plain");
  EXPECT_EQ(Nfd("\ud55c"), "\u1112\u1161\u11ab");
  EXPECT_EQ(Nfd("\ufb01\u00bd"), "\ufb01\u00bd") << "these have compatibility mappings only";
  EXPECT_EQ(Nfkd("\u1e9b\u0323"), "s\u0323\u0307");
}

TEST(UnicodeForm, MapsCompatibilityCharacters) {
  EXPECT_EQ(Nfkc("\ufb01 \uff21 \u00bd \u2460"), "fi A 1\u20442 1");
  EXPECT_EQ(Nfkc("\u1e9b\u0323"), "\u1e69");
  EXPECT_EQ(Nfkc("\uff76\uff9e"), "\u30ac") << "the halfwidth mark should join the letter";
  EXPECT_EQ(Nfkd("\uff76\uff9e"), "\u30ab\u3099");
  EXPECT_EQ(Nfkc("\ufdfa").size(), 33u) << "the greatest expansion";
}

TEST(UnicodeForm, MapsCharactersOfUnicode9Only) {
  EXPECT_EQ(Nfkc("\u32fe"), "\u30f2");
  EXPECT_EQ(Nfkc("\u32ff"), "\u32ff") << "a character of Unicode 12.1";
  EXPECT_EQ(Nfd("\U0001193b"), "\U0001193b");
  EXPECT_EQ(Nfd("\U00011938"), "\U00011938") << "a character of Unicode 13 that decomposes";
}

TEST(Nfc, KnowsTheCharactersOfUnicode9) {
  // The first text stays as it is: U+09FE is a mark of Unicode 11 (class 230), which Unicode 9 does
  // not know. The second text has a mark of Unicode 9 in its place, which moves behind the mark of
  // class 7.
  EXPECT_EQ(Nfc("\u09be\u09fe\u09bc"), "\u09be\u09fe\u09bc");
  EXPECT_EQ(Nfc("\u09be\u1dfb\u09bc"), "\u09be\u09bc\u1dfb");
  EXPECT_EQ(Nfc("e\u09fe\u0301"), "e\u09fe\u0301");
  EXPECT_EQ(Nfc("\U00011935\U00011930"), "\U00011935\U00011930")
      << "Unicode 13 composes them, Unicode 9 does not";
  EXPECT_EQ(Nfc("e\u0301\u09fe"), "\u00e9\u09fe");
}

TEST(Nfc, LeavesTextInFormCWhereItIs) {
  const std::string text = "d\u00e9j\u00e0 vu";
  std::string buffer;
  for (const UnicodeForm form : {UnicodeForm::kNfc, UnicodeForm::kNfkc}) {
    const auto normalized = NormalizeUnicode(form, text, &buffer);
    ASSERT_TRUE(normalized.ok());
    EXPECT_EQ(normalized->data(), text.data());
  }
}

// NFC sorts marks by class, and marks of one class keep their order. If the letter and a mark
// compose, one such mark joins the letter.
TEST(Nfc, OrdersLongRuns) {
  for (const int count : {10, 63, 64, 65, 1000}) {
    const std::string high = Times(count, "\u0301");
    const std::string low = Times(count, "\u0316");
    EXPECT_EQ(Nfc("x" + high + low + "y"), "x" + low + high + "y") << count;
    EXPECT_EQ(Nfc("e" + high + low), "\u00e9" + low + Times(count - 1, "\u0301")) << count;
    // U+0F73 decomposes into U+0F71 (class 129) and U+0F72 (class 130).
    EXPECT_EQ(Nfc("x" + Times(count, "\u0f73")),
              "x" + Times(count, "\u0f71") + Times(count, "\u0f72"));
  }
}

// U+FF9E becomes U+3099 (class 8) in the compatibility forms, and is no mark in the others.
TEST(UnicodeForm, OrdersLongRunsOfHalfwidthMarks) {
  for (const int count : {10, 63, 64, 65, 1000}) {
    const std::string text = "x" + Times(count, "\u0301\uff9e");
    const std::string ordered = "x" + Times(count, "\u3099") + Times(count, "\u0301");
    EXPECT_EQ(Nfkc(text), ordered) << count;
    EXPECT_EQ(Nfkd(text), ordered) << count;
    EXPECT_EQ(Nfc(text), text) << count;
    EXPECT_EQ(Nfd(text), text) << count;
  }
}

TEST(UnicodeForm, TreatsLongRunsLikeShortOnes) {
  // U+034F in the middle has class 0 and does not compose, so no mark may move across it. So the
  // text has two parts. Each part is short enough for ICU to order it.
  const std::vector<std::string> marks = {"\u0301", "\u0316", "\u0327", "\u0345", "\u0f73",
                                          "\u0344", "\u3099", "\u05b0", "\uff9e"};
  std::mt19937 random(5);
  const auto draw = [&](int length) {
    std::string run;
    for (int i = 0; i < length; ++i) run += marks[random() % marks.size()];
    return run;
  };
  for (int trial = 0; trial < 200; ++trial) {
    const std::string left = "e" + draw(30);
    const std::string right = "\u034f" + draw(30);
    for (const auto& form : {Nfc, Nfd, Nfkc, Nfkd}) {
      EXPECT_EQ(form(left + right), form(left) + form(right));
      // Ordering a second time changes nothing, and ICU accepts the order that we give to a long
      // run.
      const std::string ordered = form("e" + draw(200));
      EXPECT_EQ(form(ordered), ordered);
    }
  }
}

}  // namespace
}  // namespace longstream
