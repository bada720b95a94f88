// Norm, rotation and cache write on every instruction set: comparisons with the reference, for
// writes to pages and to rows.
#include "kernels/ops/cache/rope_cache_write.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

struct Shape {
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
};
constexpr Shape kShapes[] = {{1, 1, 8}, {6, 2, 24}, {5, 1, 64}, {4, 4, 80}, {3, 3, 128}};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

// The distance between neighbouring numbers of `type` in [1, 2).
double Ulp(DType type) {
  return type == DType::kF32 ? 0x1p-23 : type == DType::kF16 ? 0x1p-10 : 0x1p-7;
}

// Inputs of the op for `rows` rows, and the outputs of one library.
class RopeCacheWriteTest : public OpTest {
 protected:
  struct Outputs {
    OwnedMatrix q, q_far, k, v, near;

    Outputs(int64_t rows, const Shape& shape, DType type)
        : q(rows, shape.num_heads * shape.head_dim),
          q_far(rows, shape.num_heads * shape.head_dim),
          k(rows, shape.num_kv_heads * shape.head_dim, type),
          v(rows, shape.num_kv_heads * shape.head_dim, type),
          near(rows, shape.num_kv_heads * shape.head_dim, type) {}

    void Attach(RopeCacheWriteArgs& args) const {
      args.q_out = q.view();
      args.k_out = k.view();
      args.v_out = v.view();
    }
    void CheckGaps() const {
      for (const OwnedMatrix* matrix : {&q, &q_far, &k, &v, &near}) matrix->CheckGaps();
    }
  };

  // Inputs with one row per position; all optional inputs are present.
  struct Inputs {
    OwnedMatrix q, k, v;
    std::vector<float> q_weight, k_weight, rope_q, rope_q_far, rope_k, rope_near, q_scale;

    Inputs(int64_t rows, const Shape& shape, Random& random)
        : q(rows, shape.num_heads * shape.head_dim, random),
          k(rows, shape.num_kv_heads * shape.head_dim, random),
          v(rows, shape.num_kv_heads * shape.head_dim, random),
          q_weight(random.Normals(shape.head_dim)),
          k_weight(random.Normals(shape.head_dim)),
          // Any numbers will do as cosines and sines.
          rope_q(random.Normals(rows * shape.head_dim)),
          rope_q_far(random.Normals(rows * shape.head_dim)),
          rope_k(random.Normals(rows * shape.head_dim)),
          rope_near(random.Normals(rows * shape.head_dim)),
          q_scale(random.Normals(rows)) {}

    RopeCacheWriteArgs Args(const TestBatch& batch, const Shape& shape) const {
      RopeCacheWriteArgs args;
      args.batch = batch.layout();
      args.num_heads = shape.num_heads;
      args.num_kv_heads = shape.num_kv_heads;
      args.head_dim = shape.head_dim;
      args.value_dim = shape.head_dim;
      args.q = q.view();
      args.k = k.view();
      args.v = v.view();
      return args;
    }
    void AddNorms(RopeCacheWriteArgs& args) const {
      args.q_norm = {q_weight.data(), args.head_dim, 1e-6f};
      args.k_norm = {k_weight.data(), args.head_dim, 1e-6f};
    }
    void AddRotations(RopeCacheWriteArgs& args) const {
      args.rope_q = rope_q.data();
      args.rope_q_far = rope_q_far.data();
      args.rope_k = rope_k.data();
      args.rope_near = rope_near.data();
      args.q_scale = q_scale.data();
    }
  };

  void ExpectNearKeysOfStoredKeys(DType type);
  void Run(const OpTable& table, const RopeCacheWriteArgs& args) {
    OwnedStream stream(0, ExecutorOf(2));
    table.rope_cache_write(*stream, args);
    ASSERT_TRUE(stream->ok());
  }

  // The f32 rounding errors of norm, rotation and scale, with |x|, |rope|, |weight| and |scale| up
  // to 4.
  static constexpr double kTolerance = 16 * 4 * 4 * kEps;

  Random random_{1};
};
LONGSTREAM_INSTANTIATE_OP_TEST(RopeCacheWriteTest);

TEST_P(RopeCacheWriteTest, WritesRows) {
  for (DType type : kTypes) {
    for (const Shape& shape : kShapes) {
      const std::vector<TestPlace> places = ScatteredPlaces(1, 9, 16, random_);
      const TestBatch batch({{0, 9, false}}, places);
      const Inputs in(9, shape, random_);
      RopeCacheWriteArgs args = in.Args(batch, shape);
      in.AddRotations(args);
      Outputs expected(9, shape, type), actual(9, shape, type);
      for (Outputs* out : {&expected, &actual}) {
        out->Attach(args);
        args.q_far_out = out->q_far.view();
        args.near_out = out->near.view();
        Run(out == &expected ? reference() : ops(), args);
      }
      // Without a norm every value is one f32 expression, also in the reference, so the bits are
      // equal.
      const std::string what = std::string(NameOf(type)) + " D " + std::to_string(shape.head_dim);
      ExpectSameBits(actual.q.view(), expected.q.view(), "q " + what);
      ExpectSameBits(actual.q_far.view(), expected.q_far.view(), "q far " + what);
      ExpectSameBits(actual.k.view(), expected.k.view(), "k " + what);
      ExpectSameBits(actual.v.view(), expected.v.view(), "v " + what);
      ExpectSameBits(actual.near.view(), expected.near.view(), "near " + what);
      actual.CheckGaps();
    }
  }
}

TEST_P(RopeCacheWriteTest, NormalisesHeads) {
  for (DType type : kTypes) {
    for (const Shape& shape : kShapes) {
      const std::vector<TestPlace> places = ScatteredPlaces(1, 5, 16, random_);
      const TestBatch batch({{0, 5, false}}, places);
      const Inputs in(5, shape, random_);
      RopeCacheWriteArgs args = in.Args(batch, shape);
      in.AddNorms(args);
      for (bool rotate : {false, true}) {
        if (rotate) in.AddRotations(args);
        Outputs expected(5, shape, type), actual(5, shape, type);
        for (Outputs* out : {&expected, &actual}) {
          out->Attach(args);
          Run(out == &expected ? reference() : ops(), args);
        }
        ExpectNear(actual.q.view(), expected.q.view(), kTolerance, 0, "q");
        // A difference of an f32 rounding error may move a key to the neighbouring number of its
        // type.
        ExpectNear(actual.k.view(), expected.k.view(), kTolerance, Ulp(type), "k");
      }
    }
  }
}

TEST_P(RopeCacheWriteTest, WritesScatteredPages) {
  std::vector<DType> types(std::begin(kTypes), std::end(kTypes));
  if (ops().int8_pages) types.push_back(DType::kI8);
  for (DType type : types) {
    for (int32_t page_tokens : {16, 64}) {
      const Shape shape = {6, 2, 24};
      const std::vector<TestPlace> places = ScatteredPlaces(3, 200, page_tokens, random_);
      const TestBatch batch({{130, 1, true}, {60, 40, false}, {0, 17, false}}, places);
      const Inputs in(batch.num_rows(), shape, random_);
      RopeCacheWriteArgs args = in.Args(batch, shape);
      in.AddRotations(args);
      OwnedPages expected(type, NumPages(places), page_tokens, 2, 24);
      OwnedPages actual(type, NumPages(places), page_tokens, 2, 24);
      Outputs out(batch.num_rows(), shape, RingType(type));
      args.q_out = out.q.view();
      args.paged = expected.view();
      Run(reference(), args);
      args.paged = actual.view();
      Run(ops(), args);
      ExpectSameBytes(actual.view().keys, expected.view().keys, actual.size(), "keys");
      ExpectSameBytes(actual.view().values, expected.view().values, actual.size(), "values");
      // Row 1 + 39 of the batch is position 99 of the second sequence.
      OwnedPages written(type, NumPages(places), page_tokens, 2, 24);
      written.Write(places[1], 99, in.v, in.v, 40);
      EXPECT_EQ(actual.value(places[1], 99, 1, 7), written.value(places[1], 99, 1, 7));
    }
  }
}

// Rows of all widths, with numbers of every magnitude, must be written as the bytes that the test's
// own rounding gives. The op stores values without norm or rotation, so the test uses values.
TEST_P(RopeCacheWriteTest, RoundsRowsToInt8) {
  if (!ops().int8_pages) return;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const int32_t dim : {2, 8, 24, 80, 128, 256}) {
    constexpr int64_t kRows = 96;
    const std::vector<TestPlace> places = ScatteredPlaces(1, kRows, 64, random_);
    const TestBatch batch({{0, kRows, false}}, places);
    const Inputs in(kRows, {1, 1, dim}, random_);
    OwnedMatrix v(kRows, dim, random_);
    for (int64_t t = 0; t < kRows; ++t) {
      const float scale = std::ldexp(1.0f, static_cast<int>(random_.Integer(-140, 110)));
      for (int64_t d = 0; d < dim; ++d) {
        // Many numbers lie halfway between two integers of their row.
        v.set(t, d, scale * std::rint(254.0f * v.at(t, d)) / 254.0f);
      }
    }
    for (int64_t d = 0; d < dim; ++d) v.set(0, d, 0.0f);
    v.set(1, 1, kNaN);
    v.set(2, 0, -kInfinity);
    v.set(3, 1, -kNaN);
    for (int64_t d = 0; d < dim; ++d) v.set(4, d, d % 2 == 0 ? kTiny : -3 * kTiny);
    for (int64_t d = 0; d < dim; ++d) v.set(5, d, d % 2 == 0 ? -kMax : 1.0f);
    for (int64_t d = 0; d < dim; ++d) v.set(6, d, static_cast<float>(127 - d) / 2);
    RopeCacheWriteArgs args = in.Args(batch, {1, 1, dim});
    args.v = v.view();
    Outputs out(kRows, {1, 1, dim}, DType::kBF16);
    args.q_out = out.q.view();
    OwnedPages expected(DType::kI8, NumPages(places), 64, 1, dim);
    for (int64_t t = 0; t < kRows; ++t) expected.Write(places[0], t, in.k, v, t);
    for (const OpTable* table : {&ops(), &reference()}) {
      OwnedPages actual(DType::kI8, NumPages(places), 64, 1, dim);
      args.paged = actual.view();
      Run(*table, args);
      const std::string what = std::string(table->name) + " D " + std::to_string(dim);
      ExpectSameBytes(actual.view().keys, expected.view().keys, actual.size(), what + " keys");
      ExpectSameBytes(actual.view().values, expected.view().values, actual.size(), what);
    }
    EXPECT_TRUE(std::isnan(expected.value(places[0], 1, 0, 0)));
    EXPECT_TRUE(std::isnan(expected.value(places[0], 2, 0, 1)));
    // Rounding moves a number by at most half a step. A step is at most 2^-8 longer, relatively,
    // than 1/127 of the row's largest magnitude.
    for (int64_t t = 6; t < kRows; ++t) {
      float largest = 0.0f;
      for (int64_t d = 0; d < dim; ++d) largest = std::max(largest, std::fabs(v.at(t, d)));
      if (largest < 0x1p-100f) continue;
      for (int64_t d = 0; d < dim; ++d) {
        EXPECT_NEAR(expected.value(places[0], t, 0, d), v.at(t, d), largest / 253.0f) << t;
      }
    }
  }
}

TEST_P(RopeCacheWriteTest, NearKeysComeFromTheStoredKeys) {
  for (const DType type : {DType::kBF16, DType::kI8}) {
    if (type == DType::kBF16 || ops().int8_pages) ExpectNearKeysOfStoredKeys(type);
  }
}

void RopeCacheWriteTest::ExpectNearKeysOfStoredKeys(DType type) {
  const Shape shape = {2, 2, 24};
  const std::vector<TestPlace> places = ScatteredPlaces(1, 40, 16, random_);
  const TestBatch batch({{3, 30, false}}, places);
  const Inputs in(30, shape, random_);
  RopeCacheWriteArgs args = in.Args(batch, shape);
  in.AddNorms(args);
  in.AddRotations(args);
  OwnedPages pages(type, NumPages(places), 16, 2, 24);
  Outputs out(30, shape, DType::kBF16);
  args.q_out = out.q.view();
  args.near_out = out.near.view();
  args.paged = pages.view();
  Run(ops(), args);
  for (int64_t t = 0; t < 30; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 12; ++i) {
        const float a = pages.key(places[0], 3 + t, h, i);
        const float b = pages.key(places[0], 3 + t, h, i + 12);
        const float cosine = in.rope_near[static_cast<size_t>(t * 24 + i)];
        const float sine = in.rope_near[static_cast<size_t>(t * 24 + 12 + i)];
        EXPECT_EQ(out.near.at(t, h * 24 + i), RoundTo(DType::kBF16, a * cosine - b * sine));
        EXPECT_EQ(out.near.at(t, h * 24 + 12 + i), RoundTo(DType::kBF16, b * cosine + a * sine));
      }
    }
  }
}

// In pages each slice of a value is a head. In rows a value is stored as one run of numbers.
TEST_P(RopeCacheWriteTest, ValuesHaveSlices) {
  std::vector<DType> types(std::begin(kTypes), std::end(kTypes));
  if (ops().int8_pages) types.push_back(DType::kI8);
  constexpr int32_t kSlices = 3, kDim = 24;
  for (DType type : types) {
    const Shape shape = {4, 2, kDim};
    const std::vector<TestPlace> places = ScatteredPlaces(2, 100, 64, random_);
    const TestBatch batch({{99, 1, true}, {50, 30, false}}, places);
    const Inputs in(batch.num_rows(), shape, random_);
    const OwnedMatrix v(batch.num_rows(), 2 * kSlices * kDim, random_);
    RopeCacheWriteArgs args = in.Args(batch, shape);
    args.v = v.view();
    args.value_dim = kSlices * kDim;
    Outputs out(batch.num_rows(), shape, RingType(type));
    args.q_out = out.q.view();
    OwnedPages written(type, NumPages(places), 64, 2, kDim, kSlices);
    written.Write(places[0], 99, in.k, v, 0);
    for (int64_t t = 0; t < 30; ++t) written.Write(places[1], 50 + t, in.k, v, 1 + t);
    for (const OpTable* table : {&ops(), &reference()}) {
      OwnedPages actual(type, NumPages(places), 64, 2, kDim, kSlices);
      args.paged = actual.view();
      Run(*table, args);
      ExpectSameBytes(actual.view().keys, written.view().keys, actual.size(), "keys");
      ExpectSameBytes(actual.view().values, written.view().values, actual.value_size(), "values");
    }
  }
}

TEST_P(RopeCacheWriteTest, ValuesOfAnotherWidthAndOutputsInPlace) {
  constexpr int32_t kDk = 24, kDv = 40;
  const std::vector<TestPlace> places = ScatteredPlaces(1, 7, 16, random_);
  const TestBatch batch({{0, 7, false}}, places);
  const Inputs in(7, {3, 3, kDk}, random_);
  OwnedMatrix v(7, 3 * kDv, random_), v_out(7, 3 * kDv);
  RopeCacheWriteArgs args = in.Args(batch, {3, 3, kDk});
  in.AddNorms(args);
  in.AddRotations(args);
  args.value_dim = kDv;
  args.v = v.view();
  Outputs expected(7, {3, 3, kDk}, DType::kF32);
  expected.Attach(args);
  args.q_far_out = expected.q_far.view();
  args.v_out = v_out.view();
  Run(ops(), args);
  ExpectSameBits(v_out.view(), v.view(), "v");

  OwnedMatrix q_far(7, 3 * kDk);
  args.q_out = in.q.view();
  args.q_far_out = q_far.view();
  args.k_out = in.k.view();
  args.v_out = {};
  Run(ops(), args);
  ExpectSameBits(in.q.view(), expected.q.view(), "q in place");
  ExpectSameBits(q_far.view(), expected.q_far.view(), "q far beside q in place");
  ExpectSameBits(in.k.view(), expected.k.view(), "k in place");
}

}  // namespace
}  // namespace longstream
