// Viterbi's algorithm, compared with trying every way to cut a word.
#include "service/tokenizer/models/unigram_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;

// A piece's id is its place in the list. The first piece is the unknown token.
TokenizerSpec UnigramSpecOf(const std::vector<std::pair<std::string, double>>& pieces) {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kUnigram;
  spec.unk_id = 0;
  double least = std::numeric_limits<double>::infinity();
  std::map<std::string, std::pair<int32_t, double>> sorted;
  for (size_t i = 0; i < pieces.size(); ++i) {
    sorted[pieces[i].first] = {static_cast<int32_t>(i), pieces[i].second};
    least = std::min(least, pieces[i].second);
  }
  for (const auto& [text, token] : sorted) {
    spec.vocabulary.emplace_back(text, token.first);
    spec.scores.push_back(token.second);
  }
  spec.unk_score = least - 10;
  return spec;
}

Ids UnigramIds(const TokenizerSpec& spec, std::string_view word) {
  const auto model = UnigramModel::Create(spec);
  EXPECT_TRUE(model.ok()) << model.status();
  UnigramModel::Workspace workspace;
  Ids ids;
  model->Encode(word, &workspace, &ids);
  return ids;
}

TEST(UnigramModel, GivesBytesForWhatIsUnknown) {
  TokenizerSpec spec = UnigramSpecOf({{"<unk>", 0}, {"a", -1}, {"<0xC3>", 0}, {"<0xA9>", 0}});
  EXPECT_EQ(UnigramIds(spec, "a\u00e9a"), (Ids{1, 0, 1}));
  spec.byte_fallback = true;
  EXPECT_EQ(UnigramIds(spec, "a\u00e9\u00e9a"), (Ids{1, 2, 3, 2, 3, 1}));
  EXPECT_EQ(UnigramIds(spec, "\u00e9\u00e8"), (Ids{0})) << "only some bytes of the run have tokens";
  EXPECT_EQ(UnigramIds(spec, "<unk>"), (Ids{0})) << "the unknown token itself is in the vocabulary";
}

TEST(UnigramModel, RefusesWhatItCannotUse) {
  TokenizerSpec spec =
      UnigramSpecOf({{"<unk>", 0}, {"a", std::numeric_limits<double>::infinity()}});
  EXPECT_THAT(UnigramModel::Create(spec).status().message(),
              HasSubstr("expected a finite score for \"a\""));
  spec = UnigramSpecOf({{"<unk>", 0}, {std::string(1025, 'a'), 0}});
  EXPECT_THAT(UnigramModel::Create(spec).status().message(),
              HasSubstr("expected tokens of at most 1024 bytes, found one of 1025"));
  spec.unk_id.reset();
  EXPECT_THAT(UnigramModel::Create(spec).status().message(), HasSubstr("model.unk_id"));
}

struct Best {
  double score = -std::numeric_limits<double>::infinity();
  Ids ids;
};

void TryAll(const TokenizerSpec& spec, std::string_view rest, double score, Ids* ids, Best* best) {
  if (rest.empty()) {
    if (score > best->score) *best = {score, *ids};
    return;
  }
  bool has_character = false;
  for (size_t i = 0; i < spec.vocabulary.size(); ++i) {
    const auto& [text, id] = spec.vocabulary[i];
    if (!rest.starts_with(text)) continue;
    has_character = true;
    ids->push_back(id);
    TryAll(spec, rest.substr(text.size()), score + spec.scores[i], ids, best);
    ids->pop_back();
  }
  if (has_character) return;
  ids->push_back(0);
  TryAll(spec, rest.substr(1), score + spec.unk_score, ids, best);
  ids->pop_back();
}

TEST(UnigramModel, AgreesWithTryingAllWays) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::pair<std::string, double>> pieces = {{"<unk>", 0}};
    std::map<std::string, bool> taken;
    // The scores are such that no two sums are equal. "d" is an unknown character.
    const auto score = [&] { return -1e-3 * (random() % 100003); };
    for (const char* text : {"a", "b", "c"}) pieces.emplace_back(text, score());
    while (pieces.size() < 10) {
      std::string text;
      for (size_t n = 2 + random() % 2; n > 0; --n) text += static_cast<char>('a' + random() % 3);
      if (taken.emplace(text, true).second) pieces.emplace_back(text, score());
    }
    const TokenizerSpec spec = UnigramSpecOf(pieces);
    for (int word = 0; word < 5; ++word) {
      std::string text;
      for (size_t n = 1 + random() % 9; n > 0; --n) text += static_cast<char>('a' + random() % 4);
      Best best;
      Ids ids;
      TryAll(spec, text, 0, &ids, &best);
      // Adjacent unknown characters give one token.
      const auto fused = std::unique(best.ids.begin(), best.ids.end(),
                                     [](int32_t a, int32_t b) { return a == 0 && b == 0; });
      best.ids.erase(fused, best.ids.end());
      ASSERT_EQ(UnigramIds(spec, text), best.ids) << text;
    }
  }
}

}  // namespace
}  // namespace longstream
