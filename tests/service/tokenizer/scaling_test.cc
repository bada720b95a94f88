// Texts that would be slow if any part were quadratic. In linear time each takes well under a
// second per megabyte; in quadratic time it would take hours and exceed the test's time limit.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/text/added_token_matcher.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

std::string Repeated(std::string_view unit, size_t bytes = kBytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

std::vector<std::pair<std::string, std::string>> Texts() {
  return {
      {"one word", Repeated("a")},
      {"a word of mixed merges", Repeated("therein")},
      {"spaces", Repeated(" ")},
      {"spaces before a letter", Repeated(" ") + "a"},
      {"newlines and spaces", Repeated("\n ")},
      {"digits", Repeated("7")},
      {"apostrophes", Repeated("'")},
      {"beginnings of special tokens", Repeated("<|im_")},
      {"special tokens", Repeated("<|im_end|>")},
      {"marks in order", "e" + Repeated("\u0301")},
      {"marks out of order", "e" + Repeated("\u0301", kBytes / 2) + Repeated("\u0316", kBytes / 2)},
      {"marks alternating", "e" + Repeated("\u0301\u0316")},
      {"marks that decompose", "e" + Repeated("\u0f73\u0344")},
      {"halfwidth marks", "e" + Repeated("\uff9e\u0301")},
      {"the longest decomposition", Repeated("\ufdfa")},
      {"letters that join backwards", Repeated("\u09be")},
      {"jamo", Repeated("\u1112\u1161\u11ab")},
      {"vowels without a consonant", Repeated("\u1161")},
      {"characters of four bytes", Repeated("\U00020000")},
  };
}

class ScalingTest : public testing::TestWithParam<const char*> {};

TEST_P(ScalingTest, EncodesInLinearTime) {
  const auto tokenizer = LoadTokenizer(
      std::string(LONGSTREAM_SOURCE_DIR "/tests/golden/tokenizer/") + GetParam(), 4096);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const auto& [name, text] : Texts()) {
    const auto ids = (*tokenizer)->Encode(text + ".", {.parse_special = true});
    ASSERT_TRUE(ids.ok()) << name << ": " << ids.status();
    EXPECT_GT(ids->size(), 0u) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ScalingTest,
                         testing::Values("gpt2", "llama3", "qwen3", "flags", "llama2", "mistral",
                                         "gemma", "gpt_oss", "afmoe", "unigram", "unigram_bytes",
                                         "nfd", "nfkc", "nfkd"),
                         [](const auto& family) { return std::string(family.param); });

TEST(ScalingTest, StripsWhiteSpaceInLinearTime) {
  // The token is a space that strips white space on both sides, so each occurrence looks at the
  // whole rest of the text.
  AddedToken space;
  space.id = 1;
  space.content = " ";
  space.lstrip = true;
  space.rstrip = true;
  const AddedTokenMatcher matcher({space});
  const std::string text = Repeated(" ");
  EXPECT_EQ(matcher.Split(text, true).size(), text.size());
}

}  // namespace
}  // namespace longstream
