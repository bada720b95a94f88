// Logit scales on every instruction set, in the three forms that models use.
#include "kernels/ops/attention/logit_scale.h"

#include <cmath>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class LogitScaleTest : public OpTest {
 protected:
  // Runs the op on the library and on the reference. Adds `positions` and outputs to `args`.
  std::vector<float> Run(LogitScaleArgs args, const std::vector<int64_t>& positions) {
    std::vector<float> expected(positions.size()), actual(positions.size());
    args.positions = positions.data();
    args.num_rows = static_cast<int64_t>(positions.size());
    OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
    args.out = expected.data();
    reference().logit_scale(*reference_stream, args);
    args.out = actual.data();
    ops().logit_scale(*stream, args);
    EXPECT_EQ(actual, expected);
    return actual;
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(LogitScaleTest);

TEST_P(LogitScaleTest, LogNAlways) {
  LogitScaleArgs args;
  args.minimum = 16;
  args.base = 512;
  const std::vector<float> scale = Run(args, {0, 14, 15, 16, 511, 1023});
  EXPECT_FLOAT_EQ(scale[0], 4.0f / 9);  // ln 16 / ln 512
  EXPECT_FLOAT_EQ(scale[2], 4.0f / 9);
  EXPECT_GT(scale[3], scale[2]);
  EXPECT_FLOAT_EQ(scale[4], 1.0f);
  EXPECT_FLOAT_EQ(scale[5], 10.0f / 9);
}

TEST_P(LogitScaleTest, LogNWhenExtrapolating) {
  LogitScaleArgs args;
  args.base = 512;
  args.floor = 1;
  const std::vector<float> scale = Run(args, {0, 510, 511, 4095});
  EXPECT_EQ(scale[0], 1.0f);
  EXPECT_EQ(scale[1], 1.0f);
  EXPECT_EQ(scale[2], 1.0f);
  EXPECT_FLOAT_EQ(scale[3], 12.0f / 9);
}

TEST_P(LogitScaleTest, Hype) {
  LogitScaleArgs args;
  args.offset = 500;
  args.base = 500;
  const std::vector<float> scale = Run(args, {0, 1000, 1000000});
  EXPECT_FLOAT_EQ(scale[0], 1.0f);
  EXPECT_FLOAT_EQ(scale[1], static_cast<float>(std::log(1500.0) / std::log(500.0)));
  EXPECT_FLOAT_EQ(scale[2], static_cast<float>(std::log(1000500.0) / std::log(500.0)));
}

}  // namespace
}  // namespace longstream
