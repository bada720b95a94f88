// Rows and descriptors of a step of three sequences.
#include "backends/model/step/step_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/model/layers.h"
#include "backends/spec/model_spec.h"
#include "tests/backends/model/random_model.h"

namespace longstream {
namespace {

std::unique_ptr<SequenceCache> At(CacheStore& store, int64_t position) {
  auto cache = std::make_unique<SequenceCache>(store);
  cache->Reserve(position);
  cache->Append(position);
  return cache;
}

TEST(StepRowsTest, DescribesEachSequence) {
  CacheStore store(MakeCacheLayout(RandomSpec("full+window"), DType::kF32), 0);
  const auto first = At(store, 130);
  const auto second = At(store, 1);
  const auto third = At(store, 65);
  StepRows rows(100, 3, /*chunk_size=*/40);
  rows.PreparePageTables(10);
  for (int round = 0; round < 2; ++round) {  // Clear forgets everything
    rows.Clear();
    EXPECT_EQ(rows.Add(*first, std::vector<int32_t>{7}, /*is_decode=*/true), 0);
    EXPECT_EQ(rows.Add(*second, std::vector<int32_t>{8}, false), 1);
    EXPECT_EQ(rows.Add(*third, std::vector<int32_t>{9, 10, 11}, false), 2);

    rows.Upload();

    const BatchLayout layout = rows.layout();
    ASSERT_EQ(layout.num_rows, 5);
    ASSERT_EQ(layout.num_sequences, 3);
    EXPECT_EQ(layout.num_decode_rows, 1);
    EXPECT_EQ(rows.num_decode_rows(), 1);
    const int32_t ids[] = {7, 8, 9, 10, 11};
    const int64_t positions[] = {129, 0, 62, 63, 64};
    const int32_t chunks[] = {3, 0, 1, 1, 1};
    const int32_t owners[] = {0, 1, 2, 2, 2};
    for (int t = 0; t < 5; ++t) {
      EXPECT_EQ(rows.ids()[t], ids[t]);
      EXPECT_EQ(layout.positions[t], positions[t]);
      EXPECT_EQ(rows.chunks()[t], chunks[t]);
      EXPECT_EQ(layout.row_sequence[t], owners[t]);
    }
    EXPECT_EQ(rows.max_position(), 129);

    const SequenceCache* caches[] = {first.get(), second.get(), third.get()};
    for (int s = 0; s < 3; ++s) {
      const SequenceRows& sequence = layout.sequences[s];
      EXPECT_EQ(sequence.slot, caches[s]->slot());
      EXPECT_EQ(sequence.is_decode, s == 0 ? 1 : 0);
      EXPECT_EQ(sequence.first_position, layout.positions[sequence.first_row]);
      const auto pages = caches[s]->page_table();
      EXPECT_TRUE(
          std::equal(pages.begin(), pages.end(), layout.page_tables + sequence.page_offset));
    }
    EXPECT_EQ(layout.sequences[2].num_rows, 3);
  }
}

// Two decode rows padded to five: the first rows stay, the added rows belong to no sequence, and
// the places of the arrays depend on the number of rows only.
TEST(StepRowsTest, PadsWithRowsOfTheSpareMemory) {
  CacheStore store(MakeCacheLayout(RandomSpec("full+window"), DType::kF32), 1 << 20);
  const auto first = At(store, 130);
  const auto second = At(store, 2);
  StepRows rows(8, 8, /*chunk_size=*/40);
  rows.PreparePageTables(10);
  rows.Clear();
  rows.Add(*first, std::vector<int32_t>{7}, /*is_decode=*/true);
  rows.Add(*second, std::vector<int32_t>{~0}, /*is_decode=*/true);
  rows.PadTo(5, 255, store);
  rows.Upload();
  const BatchLayout layout = rows.layout();
  ASSERT_EQ(layout.num_rows, 5);
  ASSERT_EQ(layout.num_sequences, 5);
  EXPECT_EQ(layout.num_decode_rows, 5);
  EXPECT_EQ(rows.max_position(), 255);
  EXPECT_EQ(layout.positions[0], 129);
  EXPECT_EQ(layout.positions[1], 1);
  EXPECT_EQ(rows.ids()[1], ~0);
  for (int32_t t = 0; t < 5; ++t) {
    const SequenceRows& sequence = layout.sequences[t];
    EXPECT_EQ(layout.row_sequence[t], t);
    EXPECT_EQ(sequence.first_row, t);
    EXPECT_EQ(sequence.num_rows, 1);
    EXPECT_EQ(sequence.is_decode, 1);
    EXPECT_EQ(sequence.first_position, layout.positions[t]);
    if (t < 2) continue;
    EXPECT_EQ(layout.positions[t], 0);
    EXPECT_EQ(rows.ids()[t], 0);
    EXPECT_EQ(rows.chunks()[t], 0);
    EXPECT_EQ(sequence.slot, store.slots.spare());
    EXPECT_EQ(layout.page_tables[sequence.page_offset], store.pages.spare());
  }
}

}  // namespace
}  // namespace longstream
