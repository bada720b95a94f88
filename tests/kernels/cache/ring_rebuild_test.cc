// Tests that rebuilt near rings have the bits that the forward pass wrote, on every instruction
// set.
#include "kernels/ops/cache/ring_rebuild.h"

#include <string>
#include <vector>

#include "kernels/ops/cache/ring_write.h"
#include "kernels/ops/cache/rope_cache_write.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

constexpr int32_t kHeads = 2;

class RingRebuildTest : public OpTest {
 protected:
  Random random_{1};
};
LONGSTREAM_INSTANTIATE_OP_TEST(RingRebuildTest);

TEST_P(RingRebuildTest, GivesTheBitsOfTheForwardPass) {
  std::vector<DType> types = {DType::kF32, DType::kF16, DType::kBF16};
  if (ops().int8_pages) types.push_back(DType::kI8);
  for (DType type : types) {
    const DType ring_type = RingType(type);
    for (int32_t dim : {8, 24, 64, 80}) {
      constexpr int64_t kTokens = 150;
      const int32_t slots = 41;
      const std::vector<TestPlace> places = ScatteredPlaces(1, kTokens, 16, random_);
      const TestBatch batch({{0, kTokens, false}}, places);
      OwnedMatrix k(kTokens, kHeads * dim, random_), q(kTokens, kHeads * dim);
      OwnedMatrix near(kTokens, kHeads * dim, ring_type);
      const std::vector<float> rope = random_.Normals(kTokens * dim);
      OwnedPages pages(type, NumPages(places), 16, kHeads, dim);
      RopeCacheWriteArgs write;
      write.batch = batch.layout();
      write.num_heads = kHeads;
      write.num_kv_heads = kHeads;
      write.head_dim = dim;
      write.value_dim = dim;
      write.q = k.view();
      write.k = k.view();
      write.v = k.view();
      write.q_out = q.view();
      write.rope_near = rope.data();
      write.paged = pages.view();
      write.near_out = near.view();
      OwnedStream stream(0, ExecutorOf(2));
      ops().rope_cache_write(*stream, write);
      OwnedRings written(ring_type, NumSlots(places), slots, kHeads, dim, false);
      ops().ring_write(*stream, {batch.layout(), near.view(), {}, written.view()});

      const std::string what = std::string(NameOf(type)) + " D " + std::to_string(dim);
      RingRebuildArgs args;
      args.cache = pages.view();
      args.page_table = places[0].pages.data();
      args.slot = places[0].slot;
      args.begin = kTokens - slots;
      args.end = kTokens;
      args.rope = rope.data() + args.begin * dim;
      OwnedRings rebuilt(ring_type, NumSlots(places), slots, kHeads, dim, false);
      args.ring = rebuilt.view();
      ops().ring_rebuild(*stream, args);
      const size_t size = static_cast<size_t>(NumSlots(places) * written.view().slot_stride);
      ExpectSameBytes(rebuilt.view().keys, written.view().keys, size, what);

      OwnedRings expected(ring_type, NumSlots(places), slots, kHeads, dim, false);
      args.ring = expected.view();
      reference().ring_rebuild(*stream, args);
      ExpectSameBytes(rebuilt.view().keys, expected.view().keys, size, what + ", reference");
    }
  }
}

TEST_P(RingRebuildTest, WritesTheGivenPositionsAlone) {
  const std::vector<TestPlace> places = ScatteredPlaces(1, 40, 16, random_);
  OwnedMatrix k(40, kHeads * 8, random_);
  OwnedPages pages(DType::kF32, NumPages(places), 16, kHeads, 8);
  for (int64_t j = 0; j < 40; ++j) pages.Write(places[0], j, k, k, j);
  std::vector<float> rope(5 * 8);
  // The cosines are 0 and the sines 1, which is a quarter turn.
  for (size_t i = 0; i < rope.size(); ++i) rope[i] = i % 8 < 4 ? 0.0f : 1.0f;
  OwnedRings ring(DType::kF32, NumSlots(places), 23, kHeads, 8, false);
  RingRebuildArgs args;
  args.cache = pages.view();
  args.page_table = places[0].pages.data();
  args.ring = ring.view();
  args.slot = places[0].slot;
  args.begin = 21;
  args.end = 26;
  args.rope = rope.data();
  OwnedStream stream(0, ExecutorOf(2));
  ops().ring_rebuild(*stream, args);
  for (int64_t j = 10; j < 33; ++j) {
    for (int64_t i = 0; i < 4; ++i) {
      const float a = ring.key(places[0], j, 1, i);
      const float b = ring.key(places[0], j, 1, i + 4);
      if (j < 21 || j >= 26) {
        EXPECT_TRUE(std::isnan(a) && std::isnan(b)) << j;
      } else {
        EXPECT_EQ(a, -k.at(j, 8 + i + 4)) << j;
        EXPECT_EQ(b, k.at(j, 8 + i)) << j;
      }
    }
  }
}

}  // namespace
}  // namespace longstream
