// The merge loop, compared with a literal execution of the definition.
#include "service/tokenizer/models/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "service/tokenizer/text/byte_alphabet.h"

namespace longstream {
namespace {

using testing::HasSubstr;

// Tokens 0 to 255 are the bytes. After them come the tokens that the merges need.
TokenizerSpec SpecOf(const std::vector<std::pair<std::string, std::string>>& merges) {
  std::map<std::string, int32_t> vocabulary;
  for (int32_t byte = 0; byte < 256; ++byte) {
    vocabulary[ByteToAlphabet(static_cast<unsigned char>(byte))] = byte;
  }
  for (const auto& [left, right] : merges) {
    vocabulary.emplace(left + right, static_cast<int32_t>(vocabulary.size()));
  }
  TokenizerSpec spec;
  spec.byte_level = true;
  spec.vocabulary.assign(vocabulary.begin(), vocabulary.end());
  spec.merges = merges;
  return spec;
}

std::vector<int32_t> Encode(const BpeModel& model, std::string_view word) {
  BpeModel::Workspace workspace;
  std::vector<int32_t> ids;
  model.Encode(word, &workspace, &ids);
  return ids;
}

std::vector<int32_t> Encode(const TokenizerSpec& spec, std::string_view word) {
  const auto model = BpeModel::Create(spec);
  EXPECT_TRUE(model.ok()) << model.status();
  return Encode(*model, word);
}

TEST(BpeModel, GivesBytesWithoutMerges) {
  EXPECT_EQ(Encode(SpecOf({}), "h\u00e9"), (std::vector<int32_t>{'h', 0xC3, 0xA9}));
}

TEST(BpeModel, TakesAWholeWordWhereMergesAreIgnored) {
  TokenizerSpec spec = SpecOf({{"a", "b"}});
  spec.vocabulary.emplace_back("Ġabc", 900);
  EXPECT_EQ(Encode(spec, " abc"), (std::vector<int32_t>{' ', 256, 'c'}));
  spec.ignore_merges = true;
  EXPECT_EQ(Encode(spec, " abc"), (std::vector<int32_t>{900}));
  EXPECT_EQ(Encode(spec, " abcd"), (std::vector<int32_t>{' ', 256, 'c', 'd'}));
}

TEST(BpeModel, NeedsATokenForEachByteOfUtf8) {
  TokenizerSpec spec = SpecOf({});
  std::erase_if(spec.vocabulary, [](const auto& token) { return token.second == 0xC0; });
  EXPECT_TRUE(BpeModel::Create(spec).ok()) << "0xC0 needs no token, because UTF-8 never has it";
  std::erase_if(spec.vocabulary, [](const auto& token) { return token.second == ' '; });
  EXPECT_EQ(BpeModel::Create(spec).status().message(),
            "model.vocab: expected a token for each byte, found none for byte 0x20, \"Ġ\"");
}

TEST(BpeModel, NeedsTheTokensOfItsMerges) {
  TokenizerSpec spec = SpecOf({{"a", "b"}});
  spec.merges.emplace_back("ab", "c");
  EXPECT_THAT(BpeModel::Create(spec).status().message(), HasSubstr("model.merges[1]"));
  EXPECT_THAT(BpeModel::Create(spec).status().message(), HasSubstr("\"abc\""));
  spec.merges.back() = {"xyz", "a"};
  EXPECT_THAT(BpeModel::Create(spec).status().message(), HasSubstr("\"xyz\""));
}

// Single characters are tokens from 300 on. There are byte tokens for the three bytes of "€" (E2 82
// AC), and "<unk>".
TokenizerSpec CharacterSpec() {
  TokenizerSpec spec;
  spec.vocabulary = {{"<0x82>", 1}, {"<0xAC>", 2}, {"<0xE2>", 3}, {"<unk>", 0},
                     {"a", 300},    {"ab", 302},   {"b", 301},    {"é", 303}};
  spec.merges = {{"a", "b"}};
  return spec;
}

TEST(BpeModel, WorksOnCharacters) {
  TokenizerSpec spec = CharacterSpec();
  EXPECT_EQ(Encode(spec, "éaba"), (std::vector<int32_t>{303, 302, 300}));
  EXPECT_EQ(Encode(spec, "a€b"), (std::vector<int32_t>{302}))
      << "a character without a token is left out";
  EXPECT_EQ(Encode(spec, "€"), std::vector<int32_t>());
}

TEST(BpeModel, FallsBackToBytes) {
  TokenizerSpec spec = CharacterSpec();
  spec.byte_fallback = true;
  spec.unk_id = 0;
  EXPECT_EQ(Encode(spec, "a€b"), (std::vector<int32_t>{300, 3, 1, 2, 301}));
  EXPECT_EQ(Encode(spec, "aèb"), (std::vector<int32_t>{300, 0, 301}))
      << "only some bytes of the character have tokens";
}

TEST(BpeModel, FusesUnknownCharacters) {
  TokenizerSpec spec = CharacterSpec();
  spec.unk_id = 0;
  EXPECT_EQ(Encode(spec, "xyaz"), (std::vector<int32_t>{0, 0, 300, 0}));
  spec.fuse_unk = true;
  EXPECT_EQ(Encode(spec, "xyaz"), (std::vector<int32_t>{0, 300, 0}));
}

TEST(BpeModel, TakesSymbolsWhole) {
  TokenizerSpec spec = CharacterSpec();
  spec.vocabulary.emplace_back("aba", 304);
  spec.symbols = {"aba"};
  EXPECT_EQ(Encode(spec, "ababab"), (std::vector<int32_t>{304, 301, 302}));
}

TEST(BpeModel, MergesPairsOfOneRankFromTheLeft) {
  TokenizerSpec spec;
  spec.vocabulary = {{"a", 1}, {"ab", 4}, {"b", 2}, {"bc", 5}, {"c", 3}};
  spec.merges = {{"b", "c"}, {"a", "b"}};
  EXPECT_EQ(Encode(spec, "abc"), (std::vector<int32_t>{1, 5}))
      << "merges rank by their places in the list";
  spec.merge_ranks = {7, 7};
  EXPECT_EQ(Encode(spec, "abc"), (std::vector<int32_t>{4, 3}));
}

// Merges the pair of the lowest rank until no pair can be merged. If several pairs have the lowest
// rank, it merges the leftmost.
std::vector<std::string> MergeLiterally(
    const std::vector<std::pair<std::string, std::string>>& merges, std::string_view word) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  while (true) {
    size_t best_rank = merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].first != symbols[i] || merges[rank].second != symbols[i + 1]) continue;
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BpeModel, AgreesWithTheDefinition) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    // Draws merges of existing tokens, as training finds them. No two merges give the same text.
    std::vector<std::string> texts = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    while (merges.size() < 12) {
      const std::string& left = texts[random() % texts.size()];
      const std::string& right = texts[random() % texts.size()];
      const std::string text = left + right;
      if (std::find(texts.begin(), texts.end(), text) != texts.end()) continue;
      merges.emplace_back(left, right);
      texts.push_back(text);
    }
    const TokenizerSpec spec = SpecOf(merges);
    const std::map<std::string, int32_t> ids(spec.vocabulary.begin(), spec.vocabulary.end());
    const auto model = BpeModel::Create(spec);
    ASSERT_TRUE(model.ok()) << model.status();
    for (int word = 0; word < 20; ++word) {
      std::string text;
      for (size_t n = 1 + random() % 40; n > 0; --n) text += static_cast<char>('a' + random() % 3);
      std::vector<int32_t> expected;
      for (const std::string& symbol : MergeLiterally(merges, text)) {
        expected.push_back(ids.at(symbol));
      }
      ASSERT_EQ(Encode(*model, text), expected) << text;
    }
  }
}

}  // namespace
}  // namespace longstream
