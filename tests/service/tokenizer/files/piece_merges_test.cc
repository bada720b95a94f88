// The merges of SentencePiece vocabularies, and their bounds.
#include "service/tokenizer/files/piece_merges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace longstream {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// The pieces a, aa, ..., of 1 to `longest` letters.
TokenizerSpec Letters(int longest) {
  TokenizerSpec spec;
  for (int size = 1; size <= longest; ++size) {
    spec.vocabulary.emplace_back(std::string(static_cast<size_t>(size), 'a'), size);
    spec.scores.push_back(-size);
  }
  return spec;
}

TEST(PieceMergesTest, JoinPiecesAtEachPlace) {
  TokenizerSpec spec = Letters(3);
  ASSERT_TRUE(AddPieceMerges(&spec).ok());
  EXPECT_THAT(spec.merges, ElementsAre(Pair("a", "a"), Pair("a", "aa"), Pair("aa", "a")));
  EXPECT_THAT(spec.merge_ranks, ElementsAre(1, 2, 2));
}

// 1000 pieces of up to 1000 letters would give merges of 333 MB; 100000 such pieces as much more.
TEST(PieceMergesTest, AreBounded) {
  TokenizerSpec spec = Letters(1000);
  const absl::Status status = AddPieceMerges(&spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "expected pieces that give at most 8000000 merges of 67108864 bytes in all, found more "
            "up to token 587");
  EXPECT_LE(spec.merges.size(), 200'000u);
}

}  // namespace
}  // namespace longstream
