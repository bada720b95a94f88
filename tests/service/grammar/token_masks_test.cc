// Tests masks against a walk token by token.
#include "service/grammar/token_masks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/grammar/grammar_builder.h"
#include "tests/service/grammar/fits.h"
#include "tests/service/grammar/random_grammar.h"

namespace longstream {
namespace {

// The token of each id is given; ids that are divisible by 7 are special.
class ListedTokens : public Tokenizer {
 public:
  explicit ListedTokens(std::vector<std::string> tokens)
      : Tokenizer({.vocab_size = static_cast<int>(tokens.size())}), tokens_(std::move(tokens)) {}

  std::string_view kind() const override { return "listed"; }
  std::string_view TokenBytes(int32_t id) const override {
    return tokens_[static_cast<size_t>(id)];
  }
  bool IsSpecial(int32_t id) const override { return id % 7 == 0; }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view, EncodeOptions) const override {
    return absl::UnimplementedError("only for decoding");
  }

  const std::vector<std::string> tokens_;
};

ListedTokens RandomTokens(uint64_t seed, size_t count, std::string_view letters) {
  std::mt19937_64 random(seed);
  std::vector<std::string> tokens(count);
  for (std::string& token : tokens) {
    for (uint64_t length = random() % 6; length > 0; --length) {
      token += letters[random() % letters.size()];
    }
  }
  return ListedTokens(std::move(tokens));
}

std::vector<bool> Expected(const Grammar& grammar, const Tokenizer& tokens, std::string_view text) {
  std::vector<bool> allowed;
  for (int32_t id = 0; id < tokens.vocab_size(); ++id) {
    Matcher matcher(grammar);
    const bool is_text = !tokens.IsSpecial(id) && !tokens.TokenBytes(id).empty();
    allowed.push_back(is_text && Reads(matcher, text) && Reads(matcher, tokens.TokenBytes(id)));
  }
  return allowed;
}

// Empty: the grammar reads the text in too many ways.
std::vector<bool> Allowed(TokenMasks& masks, Matcher& matcher, int vocab_size) {
  std::vector<uint32_t> mask(masks.words(), 0xdeadbeef);
  if (!masks.Fill(matcher, absl::MakeSpan(mask)).ok()) return {};
  std::vector<bool> allowed;
  for (size_t id = 0; id < mask.size() * 32; ++id) {
    const bool bit = (mask[id / 32] >> (id % 32) & 1) != 0;
    if (id < static_cast<size_t>(vocab_size)) {
      allowed.push_back(bit);
    } else {
      EXPECT_FALSE(bit) << "beyond the vocabulary";
    }
  }
  return allowed;
}

TEST(TokenTrie, HasEachTokenOnItsPath) {
  const ListedTokens tokens = RandomTokens(1, 500, "abc\xff");
  const TokenTrie trie(tokens);
  std::string path;
  std::vector<bool> found(500, false);
  for (size_t node = 0; node < trie.num_nodes(); ++node) {
    if (node > 0) {
      ASSERT_LE(trie.Depth(node), path.size() + 1);
      path.resize(trie.Depth(node) - 1);
      path += static_cast<char>(trie.Byte(node));
    }
    ASSERT_GT(trie.End(node), node);
    ASSERT_LE(trie.End(node), trie.num_nodes());
    const size_t end = trie.End(node);
    EXPECT_TRUE(end == trie.num_nodes() || trie.Depth(end) <= trie.Depth(node));
    for (const int32_t id : trie.Tokens(node)) {
      EXPECT_EQ(tokens.TokenBytes(id), path);
      EXPECT_FALSE(found[static_cast<size_t>(id)]);
      found[static_cast<size_t>(id)] = true;
    }
  }
  for (int32_t id = 0; id < 500; ++id) {
    EXPECT_EQ(found[static_cast<size_t>(id)], id % 7 != 0 && !tokens.TokenBytes(id).empty()) << id;
  }
}

TEST(TokenTrie, MayBeEmpty) {
  const TokenTrie trie(ListedTokens({"special", "", ""}));
  EXPECT_EQ(trie.num_nodes(), 1u);
  EXPECT_EQ(trie.End(0), 1u);
}

TEST(TokenMasks, AreThoseOfAWalkTokenByToken) {
  int compared = 0, refused = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const RandomGrammar random(seed);
    auto grammar = random.builder().Build(random.start());
    if (!grammar.ok()) continue;
    const ListedTokens tokens = RandomTokens(seed, 64 + seed % 5, "abc");
    TokenMasks masks(*grammar, std::make_shared<TokenTrie>(tokens),
                     std::make_shared<MaskStore>(seed % 3 == 0 ? 1 : 1 << 20));
    std::mt19937_64 letters(seed);
    for (int walk = 0; walk < 5; ++walk) {
      Matcher matcher(masks.grammar());
      std::string text;
      do {
        const size_t depth = matcher.depth();
        const std::vector<bool> allowed = Allowed(masks, matcher, tokens.vocab_size());
        EXPECT_EQ(matcher.depth(), depth);
        if (allowed.empty()) {
          ++refused;
          break;
        }
        ASSERT_EQ(allowed, Expected(masks.grammar(), tokens, text))
            << "seed " << seed << ", text " << text;
        ++compared;
        if (letters() % 2 == 0) matcher.Commit();
        text += RandomGrammar::kLetters[letters() % 3];
      } while (text.size() < 6 && matcher.Push(static_cast<uint8_t>(text.back())));
    }
  }
  EXPECT_GT(compared, 3000);
  EXPECT_LT(refused, 20);
}

TEST(TokenMasks, KeepsNoMoreThanItsLimit) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule start = builder.Declare();
  const std::vector<CodePoints> letters{{U'a', U'c'}};
  builder.Define(start, builder.Repeat(builder.Character(letters), 500, 500));
  const ListedTokens tokens = RandomTokens(1, 5000, "abc");
  const auto store = std::make_shared<MaskStore>(20'000);
  TokenMasks masks(*builder.Build(start), std::make_shared<TokenTrie>(tokens), store);
  Matcher matcher(masks.grammar());
  std::vector<uint32_t> mask(masks.words());
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(masks.Fill(matcher, absl::MakeSpan(mask)).ok());
    ASSERT_TRUE(matcher.Push('a'));
    EXPECT_LE(store->bytes(), 21'000u);
  }
}

// The limit is for all nodes of a mask together.
TEST(TokenMasks, ManyNodesAreTooMuchWork) {
  GrammarBuilder builder;
  const std::vector<CodePoints> letters{{U'a', U'j'}};
  const GrammarBuilder::Expression letter = builder.Character(letters);
  std::vector<GrammarBuilder::Expression> options;
  options.reserve(1000);
  for (uint32_t i = 0; i < 1000; ++i) {
    options.push_back(builder.Named(
        builder.Sequence({builder.Repeat(letter, 0, 20), builder.Literal(std::to_string(i))})));
  }
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, builder.Choice(options));
  const ListedTokens tokens = RandomTokens(1, 20'000, "abcdefghij");
  TokenMasks masks(*builder.Build(start), std::make_shared<TokenTrie>(tokens),
                   std::make_shared<MaskStore>(1));
  Matcher matcher(masks.grammar());
  ASSERT_TRUE(matcher.Push('a'));
  std::vector<uint32_t> mask(masks.words());
  EXPECT_FALSE(masks.Fill(matcher, absl::MakeSpan(mask)).ok());
}

// A grammar that reads every text in very many ways takes a bounded time.
TEST(TokenMasks, TooMuchWorkIsRefused) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule both = builder.Declare();
  const std::vector<CodePoints> letters{{U'a', U'c'}};
  builder.Define(both, builder.Choice({builder.Sequence({builder.Call(both), builder.Call(both)}),
                                       builder.Character(letters)}));
  const ListedTokens tokens = RandomTokens(1, 20'000, "abc");
  TokenMasks masks(*builder.Build(both), std::make_shared<TokenTrie>(tokens),
                   std::make_shared<MaskStore>(1 << 20));
  Matcher matcher(masks.grammar());
  std::vector<uint32_t> mask(masks.words());
  absl::Status status;
  for (int i = 0; i < 2000 && status.ok(); ++i) {
    ASSERT_TRUE(matcher.Push('a'));
    matcher.Commit();
    status = masks.Fill(matcher, absl::MakeSpan(mask));
  }
  EXPECT_EQ(status, absl::InvalidArgumentError(
                        "response_format: the grammar reads the text in too many ways at once"));
}

}  // namespace
}  // namespace longstream
