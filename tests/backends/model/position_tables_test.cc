// The rotation of a layer's queries and keys: scores as a function of the distance.
#include "backends/model/step/position_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "tests/backends/model/random_model.h"

namespace longstream {
namespace {

constexpr int32_t kDim = 8;

// The angles of row t, from its cosines and sines; 0 if there is no table.
std::vector<double> Angles(const float* table, size_t t) {
  std::vector<double> angles(kDim / 2, 0.0);
  if (table == nullptr) return angles;
  for (size_t i = 0; i < kDim / 2; ++i) {
    angles[i] = std::atan2(table[t * kDim + kDim / 2 + i], table[t * kDim + i]);
  }
  return angles;
}

// Expects that queries and keys with these rotations score as at the given distance.
void ExpectDistance(const float* q, const float* k, const float* k_again,
                    const std::vector<int64_t>& positions,
                    const std::function<double(int64_t, int64_t)>& distance, const char* what) {
  for (size_t i = 0; i < positions.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const std::vector<double> of_q = Angles(q, i);
      const std::vector<double> of_k = Angles(k, j);
      const std::vector<double> again = Angles(k_again, j);
      for (size_t d = 0; d < kDim / 2; ++d) {
        const double expected =
            distance(positions[i], positions[j]) * std::pow(10000.0, -2.0 * d / kDim);
        const double found = of_q[d] - of_k[d] - again[d];
        EXPECT_NEAR(std::cos(found - expected), 1.0, 1e-6)
            << what << ": " << positions[i] << ", " << positions[j];
      }
    }
  }
}

class PositionTablesTest : public testing::Test {
 protected:
  // The tables of a model of one layer.
  const LayerTables Tables(const std::string& plan, int32_t window = 20) {
    RandomShape shape;
    shape.head_dim = kDim;
    shape.window = window;
    shape.chunk_size = 32;
    tables_ = std::make_unique<PositionTables>(RandomSpec(plan, shape), 64);
    Stream stream;
    tables_->Compute(ReferenceOps(), stream, positions_.data(),
                     static_cast<int64_t>(positions_.size()));
    return tables_->layer(0);
  }

  const std::vector<int64_t> positions_ = {0, 1, 5, 31, 32, 33, 64, 1000, 70000};
  std::unique_ptr<PositionTables> tables_;
};

TEST_F(PositionTablesTest, RopeIsTheDistance) {
  const LayerTables tables = Tables("full");
  ExpectDistance(
      tables.q, tables.k, nullptr, positions_,
      [](int64_t i, int64_t j) { return static_cast<double>(i - j); }, "rope");
  EXPECT_EQ(tables.q_far, nullptr);
  EXPECT_EQ(tables.near, nullptr);
}

TEST_F(PositionTablesTest, ReropeIsTheDistanceNearAndTheWindowFar) {
  const LayerTables tables = Tables("rerope");
  EXPECT_EQ(tables.k, nullptr) << "the pages hold keys without rotation";
  ExpectDistance(
      tables.q, tables.k, tables.near, positions_,
      [](int64_t i, int64_t j) { return static_cast<double>(i - j); }, "near");
  ExpectDistance(
      tables.q_far, tables.k, nullptr, positions_, [](int64_t, int64_t) { return 20.0; }, "far");
}

TEST_F(PositionTablesTest, LeakyReropeSlowsDownFromTheWindowOn) {
  const LayerTables tables = Tables("leaky");
  ExpectDistance(
      tables.q, tables.k, tables.near, positions_,
      [](int64_t i, int64_t j) { return static_cast<double>(i - j); }, "near");
  ExpectDistance(
      tables.q_far, tables.k, nullptr, positions_,
      [](int64_t i, int64_t j) { return 20.0 + (static_cast<double>(i - j) - 20) / 3; }, "far");
}

TEST_F(PositionTablesTest, ChunkedRopeIsLocal) {
  const LayerTables tables = Tables("chunked");
  ExpectDistance(
      tables.q, tables.k, nullptr, positions_,
      [](int64_t i, int64_t j) { return static_cast<double>(i % 32 - j % 32); }, "chunked");
}

// In every form, a score has the magnitude of query and key, on the pairs that rotate.
TEST_F(PositionTablesTest, MagnitudeAndPartOfAHead) {
  const std::vector<int64_t> positions = {70};
  for (const std::string plan : {"full", "rerope", "leaky"}) {
    SCOPED_TRACE(plan);
    RandomShape shape;
    shape.head_dim = kDim;
    ModelSpec spec = RandomSpec(plan, shape);
    spec.layers[0].rope.rotated = 6;
    spec.layers[0].rope.inv_freq = {0.5, 0.25, 0.125};
    spec.layers[0].rope.magnitude = 1.5f;
    PositionTables tables(spec, 64);
    Stream stream;
    tables.Compute(ReferenceOps(), stream, positions.data(), 1);
    const LayerTables layer = tables.layer(0);
    const auto length = [](const float* row, size_t i) {
      return row == nullptr ? 1.0 : std::hypot(row[i], row[kDim / 2 + i]);
    };
    for (size_t i = 0; i < kDim / 2; ++i) {
      const double expected = i < 3 ? 2.25 : 1.0;
      EXPECT_NEAR(length(layer.q, i) * length(layer.k, i) * length(layer.near, i), expected, 1e-6);
      if (layer.q_far == nullptr) continue;
      EXPECT_NEAR(length(layer.q_far, i) * length(layer.k, i), expected, 1e-6);
    }
    EXPECT_NEAR(std::atan2(layer.q[kDim / 2 + 1], layer.q[1]),
                std::remainder(70 * 0.25, 2 * std::numbers::pi), 1e-6);
    EXPECT_EQ(layer.q[3], 1.0f);
    EXPECT_EQ(layer.q[kDim / 2 + 3], 0.0f);
  }
}

TEST_F(PositionTablesTest, LogitScales) {
  const LayerTables none = Tables("window");
  EXPECT_EQ(none.q_scale, nullptr);
  ASSERT_NE(Tables("nope").q_scale, nullptr);
  for (size_t t = 0; t < positions_.size(); ++t) {
    EXPECT_NEAR(Tables("nope").q_scale[t],
                std::log(static_cast<double>(positions_[t]) + 50) / std::log(50.0), 1e-6);
    EXPECT_NEAR(Tables("rerope").q_scale[t],
                std::max(1.0, std::log(static_cast<double>(positions_[t]) + 1) / std::log(40.0)),
                1e-6);
  }
  ModelSpec spec = RandomSpec("full");
  spec.layers[0].logit_scale = LogitScaleKind::kLogNAlways;
  spec.layers[0].logit_scale_base = 512;
  PositionTables tables(spec, 64);
  Stream stream;
  tables.Compute(ReferenceOps(), stream, positions_.data(),
                 static_cast<int64_t>(positions_.size()));
  for (size_t t = 0; t < positions_.size(); ++t) {
    const double n = std::max(static_cast<double>(positions_[t]) + 1, 16.0);
    EXPECT_NEAR(tables.layer(0).q_scale[t], std::log(n) / std::log(512.0), 1e-6);
  }
}

TEST_F(PositionTablesTest, LayersOfOneKindShareTables) {
  const ModelSpec spec = RandomSpec("full+full+window+rerope+rerope");
  PositionTables tables(spec, 64);
  EXPECT_EQ(tables.layer(0).q, tables.layer(1).q);
  EXPECT_EQ(tables.layer(0).q, tables.layer(2).k);
  EXPECT_EQ(tables.layer(0).q, tables.layer(3).q) << "near queries are rotated as plain ones";
  EXPECT_EQ(tables.layer(3).q_far, tables.layer(4).q_far);
  EXPECT_EQ(tables.layer(3).q_scale, tables.layer(4).q_scale);
  // Two rotations and one scale.
  EXPECT_EQ(tables.bytes(), (2 * 64 * 6 + 64) * sizeof(float));
}

}  // namespace
}  // namespace longstream
