// Embedding lookup on every instruction set. The op copies a number and multiplies it once, so its
// bits must be those of the reference.
#include "kernels/ops/elementwise/embed.h"

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class EmbedTest : public OpTest {};
LONGSTREAM_INSTANTIATE_OP_TEST(EmbedTest);

TEST_P(EmbedTest, MatchesTheReference) {
  Random random(1);
  for (DType type : kWeightTypes) {
    for (int64_t vocabulary : {1, 31, 65}) {
      for (int64_t d : kOddSizes) {
        OwnedWeight table(vocabulary, d, type, random);
        std::vector<int32_t> ids = {0, static_cast<int32_t>(vocabulary - 1)};
        for (int i = 0; i < 5; ++i)
          ids.push_back(static_cast<int32_t>(random.Integer(0, vocabulary - 1)));
        const int64_t rows = static_cast<int64_t>(ids.size());
        OwnedMatrix expected(rows, d), actual(rows, d);
        OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
        reference().embed(*reference_stream,
                          {table.Pack(reference()), ids.data(), 12.5f, expected.view()});
        ops().embed(*stream, {table.Pack(ops()), ids.data(), 12.5f, actual.view()});
        ExpectSameBits(
            actual.view(), expected.view(),
            std::string("embed ") + GetParam() + " " + NameOf(type) + " d " + std::to_string(d));
        actual.CheckGaps();
        if (IsQuantised(type)) continue;
        EXPECT_EQ(actual.at(1, d - 1), 12.5f * table.at(vocabulary - 1, d - 1));
      }
    }
  }
}

// An id of -1 - i stands for sampled[i], which is a token or, if none was sampled, negative.
TEST_P(EmbedTest, ReadsWhatWasSampled) {
  Random random(3);
  for (DType type : kWeightTypes) {
    OwnedWeight table(65, 37, type, random);
    const std::vector<int32_t> ids = {-3, 7, -1, -2, -1};
    const std::vector<int32_t> sampled = {64, -1, 5};
    const std::vector<int32_t> meant = {5, 7, 64, -1, 64};
    const std::vector<int32_t> plain_ids = {5, 7, 64, 0, 64};
    OwnedMatrix actual(5, 37), plain(5, 37);
    for (int64_t i = 0; i < 37; ++i) actual.set(3, i, 42.0f);
    OwnedStream stream(0, ExecutorOf(2));
    ops().embed(*stream, {table.Pack(ops()), ids.data(), 2.5f, actual.view(), sampled.data()});
    ops().embed(*stream, {table.Pack(ops()), plain_ids.data(), 2.5f, plain.view()});
    for (int64_t t = 0; t < 5; ++t) {
      const int32_t id = meant[static_cast<size_t>(t)];
      for (int64_t i = 0; i < 37; ++i) {
        EXPECT_EQ(actual.at(t, i), id < 0 ? 0.0f : plain.at(t, i)) << t << ", " << i;
      }
    }
    actual.CheckGaps();
  }
}

TEST_P(EmbedTest, DoesNothingOnAFailedStream) {
  Random random(2);
  OwnedWeight table(3, 5, DType::kF32, random);
  const std::vector<int32_t> ids = {1};
  OwnedMatrix out(1, 5);
  out.set(0, 0, 42.0f);
  OwnedStream stream(0);
  stream->Fail(OpStatus::kDeviceError);
  ops().embed(*stream, {table.Pack(ops()), ids.data(), 1.0f, out.view()});
  EXPECT_EQ(out.at(0, 0), 42.0f);
}

}  // namespace
}  // namespace longstream
