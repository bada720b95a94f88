// Gathering of rows on every instruction set copies numbers exactly and changes nothing else.
#include "kernels/ops/elementwise/gather_rows.h"

#include <numeric>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class GatherRowsTest : public OpTest {
 protected:
  void Compare(int64_t num_rows, int64_t cols, const std::vector<int32_t>& rows) {
    Random same(1), again(1), third(1);
    const OwnedMatrix before(num_rows, cols, same), x(num_rows, cols, again);
    const OwnedMatrix expected(num_rows, cols, third);
    OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
    const auto count = static_cast<int64_t>(rows.size());
    ops().gather_rows(*stream, {.x = x.view(), .rows = rows.data(), .num_rows = count});
    reference().gather_rows(*reference_stream,
                            {.x = expected.view(), .rows = rows.data(), .num_rows = count});
    ASSERT_TRUE(stream->ok());
    const std::string what = "of " + std::to_string(num_rows) + " rows of " + std::to_string(cols);
    ExpectSameBits(x.view(), expected.view(), what + ", as the reference has them");
    for (int64_t i = 0; i < count; ++i) {
      const int32_t from = rows[static_cast<size_t>(i)];
      ExpectSameBits(x.view().Rows(i, 1), before.view().Rows(from, 1), what);
    }
    const int64_t left = num_rows - count;
    ExpectSameBits(x.view().Rows(count, left), before.view().Rows(count, left), what + ", left");
    x.CheckGaps();
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(GatherRowsTest);

TEST_P(GatherRowsTest, BringsRowsToTheFront) {
  for (const int64_t cols : {1, 17, 64, 300, 1024, 2100}) {
    Compare(1, cols, {0});
    Compare(9, cols, {8});
    Compare(20, cols, {0, 1, 2, 5, 19});
    Compare(20, cols, {1, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19});
  }
}

TEST_P(GatherRowsTest, ManyRowsOrNone) {
  std::vector<int32_t> rows(70);
  std::iota(rows.begin(), rows.end(), 0);
  Compare(70, 33, rows);
  for (int32_t& row : rows) row += 1;
  Compare(71, 33, rows);
  Compare(5, 33, {});
}

}  // namespace
}  // namespace longstream
