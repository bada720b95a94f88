// Tokenizers that put a space before a text, at the beginning of a sequence and in a text that
// continues another one.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/stream/stream_decoder.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {
namespace {

using Ids = std::vector<int32_t>;

class ContinuedTextTest : public testing::Test {
 protected:
  void Load(const std::string& family) {
    auto tokenizer =
        LoadTokenizer(std::string(LONGSTREAM_SOURCE_DIR "/tests/golden/tokenizer/") + family, 4096);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  Ids Encode(const std::string& text, bool continues = false) const {
    const auto ids = tokenizer_->Encode(text, {.parse_special = true, .continues = continues});
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.ok() ? *ids : Ids();
  }

  std::string Stream(const Ids& ids, DecodeOptions options) const {
    StreamDecoder decoder(*tokenizer_, StopMatcher(), {.decode = options});
    std::string text;
    for (const int32_t id : ids) text += decoder.Push(id).text;
    return text + decoder.Finish().text;
  }

  // The ids of a session to which the texts are added one after the other.
  Ids Session(const std::vector<std::string>& texts) const {
    Ids ids;
    for (const std::string& text : texts) {
      const bool continues = !ids.empty() && tokenizer_->ContinuesAfter(ids.back());
      const Ids more = Encode(text, continues);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    return ids;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(ContinuedTextTest, PutsNoSpaceWhereATextGoesOn) {
  for (const char* family : {"llama2", "mistral", "unigram", "flags"}) {
    Load(family);
    EXPECT_TRUE(tokenizer_->puts_space_first()) << family;
    EXPECT_EQ(Encode(" x", true), Encode("x")) << family;
    EXPECT_NE(Encode("x", true), Encode("x")) << family;
    EXPECT_TRUE(tokenizer_->ContinuesAfter(Encode("x").back())) << family;
  }
  for (const char* family : {"gemma", "gpt2", "qwen3", "unigram_bytes"}) {
    Load(family);
    EXPECT_FALSE(tokenizer_->puts_space_first()) << family;
    EXPECT_EQ(Encode("x", true), Encode("x")) << family;
    EXPECT_FALSE(tokenizer_->ContinuesAfter(Encode("x").back())) << family;
  }
}

TEST_F(ContinuedTextTest, BeginsAnewAfterAnAddedTokenWhereTheFileSaysSo) {
  Load("llama2");
  EXPECT_FALSE(tokenizer_->ContinuesAfter(Encode("<s>").back()));
  EXPECT_EQ(Session({"one<s>", "two", " three"}), Encode("one<s>two three"));
  Load("mistral");
  EXPECT_TRUE(tokenizer_->ContinuesAfter(Encode("[INST]").back()))
      << "this tokenizer puts a space only before the first text";
  EXPECT_EQ(Session({"[INST]", "two", "[/INST]", "x"}), Encode("[INST]two[/INST]x"));
  EXPECT_EQ(Session({"one [INST]", "two"}), Encode("one [INST]two"));
}

TEST_F(ContinuedTextTest, TakesTheSpaceAwayAtTheBeginningOnly) {
  for (const char* family : {"llama2", "mistral", "unigram"}) {
    Load(family);
    const Ids ids = Encode("def x");
    for (const DecodeOptions options : {DecodeOptions{.skip_special = true},
                                        DecodeOptions{.skip_special = true, .continues = true}}) {
      const std::string expected = options.continues ? " def x" : "def x";
      EXPECT_EQ(tokenizer_->Decode(ids, options), expected) << family;
      EXPECT_EQ(Stream(ids, options), expected) << family;
    }
    // If a special token without text comes first, the next token still begins the text.
    Ids begun = Encode("<s>");
    begun.insert(begun.end(), ids.begin(), ids.end());
    EXPECT_EQ(Stream(begun, {.skip_special = true}), "def x") << family;
  }
  Load("gemma");
  EXPECT_EQ(tokenizer_->Decode(Encode(" x")), " x");
}

TEST_F(ContinuedTextTest, GivesCharactersOfByteTokensAsTheyAreComplete) {
  Load("llama2");
  const Ids ids = Encode("\U0001F680\u0416", true);
  ASSERT_EQ(ids.size(), 6u) << "bytes";
  StreamDecoder decoder(*tokenizer_, StopMatcher());
  std::string trace;
  for (const int32_t id : ids) {
    const TextDelta delta = decoder.Push(id);
    trace += delta.text + "@" + std::to_string(delta.position) + " ";
  }
  EXPECT_EQ(trace, "@0 @0 @0 \U0001F680@4 @4 \u0416@6 ");
}

TEST_F(ContinuedTextTest, ReplacesEachByteThatIsNoCharacter) {
  Load("llama2");
  const Ids bytes = Encode("\u20ac", true);
  ASSERT_EQ(bytes.size(), 3u);
  const int32_t a = Encode("a", true).front();
  const Ids ids = {bytes[0], bytes[1], a, bytes[0], bytes[1], bytes[2], bytes[1]};
  EXPECT_EQ(tokenizer_->Decode(ids), "\uFFFD\uFFFDa\u20ac\uFFFD");
  StreamDecoder decoder(*tokenizer_, StopMatcher());
  decoder.Push(ids[0]);
  EXPECT_EQ(decoder.Push(ids[1]).position, 0u);
  const TextDelta delta = decoder.Push(ids[2]);
  EXPECT_EQ(delta.text, "\uFFFD\uFFFDa");
  EXPECT_EQ(delta.position, 3u);
}

}  // namespace
}  // namespace longstream
