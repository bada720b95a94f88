// Deltas of a token stream. They have whole characters and no part of a stop string, and each has
// the position that it reaches.
#include "service/tokenizer/stream/stream_decoder.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/tokenizer/models/byte_tokenizer.h"
#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/tokenizer.h"
#include "tests/service/tokenizer/stream/matcher_of.h"

namespace longstream {
namespace {

// Token i is the i-th string. Strings in angle brackets are special tokens.
class ListTokenizer : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> tokens)
      : Tokenizer({.vocab_size = static_cast<int>(tokens.size())}), tokens_(std::move(tokens)) {}

  std::string_view kind() const override { return "list"; }
  std::string_view TokenBytes(int32_t id) const override {
    return tokens_[static_cast<size_t>(id)];
  }
  bool IsSpecial(int32_t id) const override { return TokenBytes(id).starts_with('<'); }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view, EncodeOptions) const override {
    return absl::UnimplementedError("a list of tokens");
  }

  std::vector<std::string> tokens_;
};

// Returns the deltas of all tokens in order and then the delta of Finish, as "text@position
// text@position". If a stop string is found, the trace ends with "#index".
std::string Trace(const std::vector<std::string>& tokens,
                  const std::vector<std::string>& stop_strings, StreamDecoderOptions options) {
  const ListTokenizer tokenizer(tokens);
  StreamDecoder decoder(tokenizer, MatcherOf(stop_strings), options);
  std::string trace;
  for (size_t id = 0; id <= tokens.size(); ++id) {
    const TextDelta delta =
        id < tokens.size() ? decoder.Push(static_cast<int32_t>(id)) : decoder.Finish();
    trace += (id == 0 ? "" : " ") + delta.text + "@" + std::to_string(delta.position);
    if (delta.stop) return trace + "#" + std::to_string(*delta.stop);
  }
  return trace;
}

TEST(StreamDecoder, GivesTextAndPositionOfEachToken) {
  const struct {
    const char* shows;
    std::vector<std::string> tokens;
    std::vector<std::string> stop_strings;
    const char* trace;
    StreamDecoderOptions options{};
  } cases[] = {
      {"each token at once", {"one", "two", "", "3"}, {}, "one@1 two@2 @3 3@4 @4"},
      {"positions from 1000", {"a", "b"}, {}, "a@1001 b@1002 @1002", {.start_position = 1000}},
      // The first token is complete with the euro sign. The second one is complete only when its
      // last byte is.
      {"a token counts with its last byte",
       {"\xE2\x82", "\xAC!\xC3", "\xA9"},
       {},
       "@0 \u20ac!@1 \u00e9@3 @3"},
      {"an empty token within a character", {"\xE2\x82", "", "\xAC"}, {}, "@0 @0 \u20ac@3 @3"},
      {"a stop string across three deltas",
       {"text", " <s", "to", "p> more", "never seen"},
       {"<stop>"},
       "text@1  @1 @1 @1#0"},
      {"a failed candidate", {"a", "<s", "t", "e", "p"}, {"<stop>"}, "a@1 @1 @1 <ste@4 p@5 @5"},
      {"a candidate that Finish releases", {"a", "<s", "t"}, {"<stop>"}, "a@1 @1 @1 <st@3"},
      // The "b" of the second token may begin "bc", so only the first token is complete. The third
      // token completes the second one.
      {"the tokens before a candidate", {"a", "ab", "d"}, {"bc"}, "a@1 a@1 bd@3 @3"},
      {"two candidates", {"x", "y", "z", "xyw"}, {"xyz!", "zxy!"}, "@0 @0 @0 xyzxyw@4 @4"},
      {"a candidate of all tokens", {"x", "y", "xyz"}, {"xyxyzz"}, "@0 @0 @0 xyxyz@3"},
      {"a stop string at the first byte", {"\nab"}, {"\n"}, "@0#0"},
      {"a stop string by its bytes",
       {"ok", "\xE7\xB5", "\x82\xE3\x82", "\x8F", "\xE3\x82\x8A"},
       {"終わり"},
       "ok@1 @1 @1 @1 @1#0"},
      {"Finish completes a stop string", {"a", "\xE2"}, {"\uFFFD"}, "a@1 @1 @1#0"},
      {"no search in the first tokens",
       {"stop", "st", "op"},
       {"stop"},
       "stop@1 st@2 op@3 @3",
       {.min_tokens = 2}},
      {"a search in those after them",
       {"stop", "st", "stop"},
       {"stop"},
       "stop@1 st@2 @2#0",
       {.min_tokens = 2}},
      {"special tokens skipped",
       {"a", "<end>", "b"},
       {},
       "a@1 @2 b@3 @3",
       {.decode = {.skip_special = true}}},
      {"special tokens given", {"a", "<end>", "b"}, {}, "a@1 <end>@2 b@3 @3"},
  };
  for (const auto& row : cases) {
    EXPECT_EQ(Trace(row.tokens, row.stop_strings, row.options), row.trace) << row.shows;
  }
}

// Up to 20 tokens of up to 4 bytes: lead bytes, continuation bytes and ASCII, so that characters
// are complete, incomplete and invalid.
std::vector<std::string> RandomTokens(std::mt19937& random) {
  constexpr std::string_view kBytes = "ab\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF\xED\xA0";
  std::vector<std::string> tokens(1 + random() % 20);
  for (std::string& token : tokens) {
    for (size_t n = random() % 5; n > 0; --n) token += kBytes[random() % kBytes.size()];
  }
  return tokens;
}

// For random bytes in random tokens: the deltas joined equal Decode of the tokens, each delta is
// UTF-8, and the positions rise to the number of tokens.
TEST(StreamDecoder, AgreesWithDecode) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::vector<std::string> tokens = RandomTokens(random);
    std::vector<int32_t> ids(tokens.size());
    std::iota(ids.begin(), ids.end(), 0);
    const ListTokenizer tokenizer(tokens);
    StreamDecoder decoder(tokenizer, MatcherOf({"aab", "\u20acb\u20ac"}));
    const std::string whole = tokenizer.Decode(ids);
    const bool stops =
        whole.find("aab") != std::string::npos || whole.find("\u20acb\u20ac") != std::string::npos;
    std::string text;
    uint64_t position = 0;
    bool stopped = false;
    for (size_t i = 0; i <= ids.size() && !stopped; ++i) {
      const TextDelta delta = i < ids.size() ? decoder.Push(ids[i]) : decoder.Finish();
      EXPECT_EQ(ValidUtf8Prefix(delta.text), delta.text.size());
      EXPECT_GE(delta.position, position);
      EXPECT_LE(delta.position, i + 1);
      position = delta.position;
      text += delta.text;
      stopped = delta.stop.has_value();
    }
    EXPECT_EQ(stopped, stops);
    if (stopped) {
      EXPECT_EQ(whole.substr(0, text.size()), text);
    } else {
      EXPECT_EQ(text, whole);
      EXPECT_EQ(position, ids.size());
    }
  }
}

// For random bytes in random tokens, and streams that pause between them: the deltas of all streams
// joined equal Decode of the tokens.
TEST(StreamDecoder, AnotherDecoderGoesOnAfterAPause) {
  std::mt19937 random(12);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::vector<std::string> tokens = RandomTokens(random);
    std::vector<int32_t> ids(tokens.size());
    std::iota(ids.begin(), ids.end(), 0);
    const ListTokenizer tokenizer(tokens);
    std::string text;
    std::string incomplete;
    for (size_t i = 0; i < ids.size();) {
      // The stop strings hold text back and never occur.
      StreamDecoder decoder(
          tokenizer, MatcherOf({"ab\u20acba!", "\uFFFD!"}),
          {.decode = {.continues = true}, .start_position = i, .incomplete = incomplete});
      const size_t end = i + 1 + random() % (ids.size() - i);
      for (; i < end; ++i) text += decoder.Push(ids[i]).text;
      const TextDelta paused = decoder.Pause();
      text += paused.text;
      incomplete = decoder.incomplete();
      EXPECT_LE(incomplete.size(), 3u);
      EXPECT_EQ(ValidUtf8Prefix(paused.text), paused.text.size());
      EXPECT_LE(paused.position, end);
      EXPECT_EQ(paused.position == end, incomplete.empty());
      EXPECT_EQ(decoder.undelivered_bytes(), 0u);
    }
    StreamDecoder last(tokenizer, StopMatcher(), {.incomplete = incomplete});
    EXPECT_EQ(text + last.Finish().text, tokenizer.Decode(ids));
  }
}

TEST(StreamDecoder, CountsTheTextFromAStopStringOn) {
  const ListTokenizer tokenizer({"so. ", "A\u20ac", "\u20ac\n\xE2"});
  StreamDecoder decoder(tokenizer, MatcherOf({"\u20ac\u20ac"}));
  EXPECT_EQ(decoder.Push(0).text, "so. ");
  EXPECT_EQ(decoder.Push(1).text, "A");
  EXPECT_TRUE(decoder.Push(2).stop.has_value());
  EXPECT_EQ(decoder.undelivered_bytes(), std::string_view("\u20ac\u20ac\n").size());
  EXPECT_EQ(decoder.incomplete(), "\xE2");
}

// Take all bytes up to the end of a token. The token is covered when the text to which these bytes
// decode has been released. Here each byte is a token.
TEST(StreamDecoder, PositionsFollowTheirDefinition) {
  const ByteTokenizer tokenizer(256);
  const std::string bytes = "x\xE2\x82\xAC\xC3(\xF0\x9F\x98\x80stop\xE2\x82-st!\xFF.";
  // For each byte, the length of the text at the end of the character that contains the byte.
  const std::vector<size_t> ends = {1,  4,  4,  4,  7,  8,  12, 12, 12, 12, 13,
                                    14, 15, 16, 19, 19, 20, 21, 22, 23, 26, 27};
  ASSERT_EQ(ends.size(), bytes.size());
  StreamDecoder decoder(tokenizer, MatcherOf({"stop!", "-st?"}));
  size_t length = 0;
  for (const char byte : bytes) {
    const TextDelta delta = decoder.Push(static_cast<unsigned char>(byte));
    length += delta.text.size();
    uint64_t covered = 0;
    while (covered < ends.size() && ends[covered] <= length) ++covered;
    EXPECT_EQ(delta.position, covered) << "after " << length << " bytes of text";
  }
  EXPECT_EQ(length, 27u);
}

}  // namespace
}  // namespace longstream
