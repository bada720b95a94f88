// A ring write must write the bytes that the reference writes, and no others, on every instruction
// set.
#include "kernels/ops/cache/ring_write.h"

#include <algorithm>

#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class RingWriteTest : public OpTest {};
LONGSTREAM_INSTANTIATE_OP_TEST(RingWriteTest);

TEST_P(RingWriteTest, MatchesTheReference) {
  Random random(1);
  constexpr int32_t kHeads = 3, kDim = 24;
  // The pieces are shorter than the ring, as long as it, longer or much longer. They begin at
  // position 0, run across the end of the ring, or begin far beyond it.
  const std::vector<TestSequence> sequences = {
      {0, 7, false},  {60, 10, false},    {500, 1, true},   {33, 67, false},
      {7, 68, false}, {1000, 300, false}, {130, 67, false}, {5, 2, false}};
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int32_t slices : {0, 1, 3}) {
      const bool has_values = slices > 0;
      const std::vector<TestPlace> places = ScatteredPlaces(8, 1, 16, random);
      const TestBatch batch(sequences, places);
      OwnedMatrix k(batch.num_rows(), kHeads * kDim, random, 1.0f, type);
      OwnedMatrix v(batch.num_rows(), std::max(slices, 1) * kHeads * kDim, random, 1.0f, type);
      OwnedRings expected(type, NumSlots(places), 67, kHeads, kDim, has_values, slices);
      OwnedRings actual(type, NumSlots(places), 67, kHeads, kDim, has_values, slices);
      RingWriteArgs args = {batch.layout(), k.view(), {}, {}};
      if (has_values) args.v = v.view();
      OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
      args.ring = expected.view();
      reference().ring_write(*reference_stream, args);
      args.ring = actual.view();
      ops().ring_write(*stream, args);
      ExpectSameBytes(actual.view().keys, expected.view().keys,
                      static_cast<size_t>(NumSlots(places) * actual.view().slot_stride), "rings");

      // The ring holds positions 1233 ... 1299 of the sixth sequence. `row` is the first row of
      // that sequence, whose first position is 1000.
      int64_t row = 0;
      for (size_t i = 0; i < 5; ++i) row += sequences[i].num_rows;
      for (int64_t j = 1233; j < 1300; ++j) {
        EXPECT_EQ(actual.key(places[5], j, 2, 5), k.at(row + j - 1000, 2 * kDim + 5)) << j;
        if (!has_values) continue;
        const int64_t last = slices * kHeads - 1;
        EXPECT_EQ(actual.value(places[5], j, last, 5), v.at(row + j - 1000, last * kDim + 5)) << j;
      }
    }
  }
}

}  // namespace
}  // namespace longstream
