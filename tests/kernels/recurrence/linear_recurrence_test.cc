// Linear recurrence on every instruction set. The reference is compared with a loop over tokens,
// and the library with the reference. Tokens are divided into steps in many ways.
#include "kernels/ops/recurrence/linear_recurrence.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/recurrence/recurrent_memory.h"

namespace longstream {
namespace {

// Some shapes have several or incomplete sub-blocks of keys, a grid that is no multiple of them, or
// values of three slices. Two have so many heads that two or three sequences fill a GPU.
constexpr RecurrenceShape kShapes[] = {
    {1, 1, 8, 8, 64},     {2, 1, 24, 40, 40},  {3, 3, 64, 64, 64},  {5, 1, 80, 17, 16},
    {2, 2, 128, 128, 64}, {1, 1, 96, 520, 64}, {4, 2, 33, 300, 24}, {1, 1, 200, 5, 56},
    {40, 4, 8, 40, 16},   {34, 2, 20, 128, 4}};

// A sequence's part of a step: an index of a history, and some of the history's rows.
struct Entry {
  int64_t history;
  TestSequence rows;
};

class LinearRecurrenceTest : public OpTest {
 protected:
  // If log_decays is empty, the decay depends on the data.
  void Prepare(const RecurrenceShape& shape, int64_t num_histories, int64_t tokens,
               std::vector<float> log_decays, float gate_scale = 3.0f) {
    shape_ = shape;
    log_decays_ = std::move(log_decays);
    histories_.clear();
    for (int64_t i = 0; i < num_histories; ++i) {
      histories_.emplace_back(tokens, shape, gate_scale, random_);
    }
    places_ = ScatteredPlaces(num_histories, 1, 16, random_);
  }
  std::vector<float> Decays(float log_decay) const {
    return std::vector<float>(static_cast<size_t>(shape_.num_heads), log_decay);
  }
  RecurrentMemory NewMemory() const { return {NumSlots(places_), shape_, log_decays_.empty()}; }

  // Runs one step on `memory`. With `absolute` it takes the absolute values of q, k and v.
  OwnedMatrix Step(const OpTable& table, const Executor& executor, const RecurrentMemory& memory,
                   const std::vector<Entry>& entries, bool absolute = false) const {
    std::vector<TestSequence> sequences;
    std::vector<int64_t> which;
    for (const Entry& entry : entries) {
      sequences.push_back(entry.rows);
      which.push_back(entry.history);
    }
    const TestBatch batch(sequences, places_, which);
    const int64_t rows = batch.num_rows();
    const OwnedMatrix q = Rows(entries, rows, &RecurrentHistory::q, absolute);
    const OwnedMatrix k = Rows(entries, rows, &RecurrentHistory::k, absolute);
    const OwnedMatrix v = Rows(entries, rows, &RecurrentHistory::v, absolute);
    const OwnedMatrix gate = Rows(entries, rows, &RecurrentHistory::gate, false);
    OwnedMatrix out(rows, shape_.num_heads * shape_.value_dim);
    LinearRecurrenceArgs args;
    args.batch = batch.layout();
    args.q = q.view();
    args.k = k.view();
    args.v = v.view();
    args.q.cols = int64_t{shape_.num_heads} * shape_.key_dim;
    args.k.cols = int64_t{shape_.num_kv_heads} * shape_.key_dim;
    args.v.cols = int64_t{shape_.num_kv_heads} * shape_.value_dim;
    if (log_decays_.empty()) {
      args.gate = gate.view();
    } else {
      args.log_decay = log_decays_.data();
    }
    args.scale = kScale;
    args.cache = memory.view();
    args.out = out.view();
    OwnedStream stream(
        LinearRecurrenceWorkspace(rows, shape_.num_heads, shape_.grid, shape_.key_dim), executor);
    table.linear_recurrence(*stream, args);
    EXPECT_TRUE(stream->ok());
    out.CheckGaps();
    return out;
  }

  // Runs a whole history as one prefill.
  OwnedMatrix Whole(const OpTable& table, int64_t history) const {
    const int32_t tokens = static_cast<int32_t>(histories_[0].q.rows());
    return Step(table, {}, NewMemory(), {{history, {0, tokens, false}}});
  }

  // Runs each history as decode rows, one token a step.
  std::vector<OwnedMatrix> OneByOne(const OpTable& table) const {
    const int64_t tokens = histories_[0].q.rows();
    const RecurrentMemory memory = NewMemory();
    std::vector<OwnedMatrix> all;
    for (size_t i = 0; i < histories_.size(); ++i) {
      all.emplace_back(tokens, shape_.num_heads * shape_.value_dim);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<Entry> entries;
      for (size_t i = 0; i < all.size(); ++i) {
        entries.push_back({static_cast<int64_t>(i), {t, 1, true}});
      }
      const OwnedMatrix out = Step(table, {}, memory, entries);
      for (size_t i = 0; i < all.size(); ++i) {
        for (int64_t c = 0; c < out.cols(); ++c) {
          all[i].set(t, c, out.at(static_cast<int64_t>(i), c));
        }
      }
    }
    return all;
  }

  // Expects |actual - expected| <= c eps magnitude. The magnitude is the op's result on absolute
  // values: for an element, the sum of the absolute values of all its products. A product is
  // rounded a few dozen times (decays, exponentials, scales, folds of the state). Then it is added
  // to Dk + grid other products; the errors of these additions add up like a random walk.
  void ExpectWithin(const Matrix& actual, const Matrix& expected, const Matrix& magnitude,
                    const std::string& what) const {
    const double c =
        32 + 4 * std::sqrt(static_cast<double>(shape_.key_dim) + static_cast<double>(shape_.grid));
    for (int64_t r = 0; r < actual.rows; ++r) {
      for (int64_t i = 0; i < actual.cols; ++i) {
        const double error = std::abs(static_cast<double>(actual.f32_row(r)[i]) -
                                      static_cast<double>(expected.f32_row(r)[i]));
        ASSERT_LE(error, c * kEps * magnitude.f32_row(r)[i])
            << what << ", " << shape_.name() << ", row " << r << ", column " << i << ": "
            << actual.f32_row(r)[i] << " instead of " << expected.f32_row(r)[i];
      }
    }
  }

  // Compares outputs and memory after steps on the library and on the reference.
  void ExpectMatch(const std::vector<std::vector<Entry>>& steps, const std::string& what) {
    const RecurrentMemory actual = NewMemory(), expected = NewMemory(), magnitude = NewMemory();
    std::vector<int64_t> positions(histories_.size(), 0);
    for (const std::vector<Entry>& entries : steps) {
      const OwnedMatrix out = Step(ops(), ExecutorOf(2), actual, entries);
      const OwnedMatrix expected_out = Step(reference(), {}, expected, entries);
      const OwnedMatrix sizes = Step(reference(), {}, magnitude, entries, true);
      ExpectWithin(out.view(), expected_out.view(), sizes.view(), what);
      if (HasFatalFailure()) return;
      for (const Entry& entry : entries) {
        positions[static_cast<size_t>(entry.history)] = entry.rows.end();
      }
    }
    for (size_t i = 0; i < histories_.size(); ++i) {
      const int32_t slot = places_[i].slot;
      ExpectWithin(actual.state(slot), expected.state(slot), magnitude.state(slot),
                   what + ", state");
      ExpectSameRows(actual, expected, slot, positions[i] % shape_.grid);
    }
  }

  // Expects equal keys and values since the last grid line; log-gates are equal up to rounding.
  void ExpectSameRows(const RecurrentMemory& actual, const RecurrentMemory& expected, int32_t slot,
                      int64_t count) const {
    const RecurrentCache& cache = actual.view();
    const int64_t offset = slot * cache.slot_stride;
    const auto view = [&](const RecurrentMemory& memory, std::byte* RecurrentCache::*part,
                          int64_t width) {
      return Matrix{memory.view().*part + offset, DType::kF32, count, width, width};
    };
    const auto compare = [&](std::byte* RecurrentCache::*part, int64_t width, double relative) {
      ExpectNear(view(actual, part, width), view(expected, part, width), 0, relative,
                 shape_.name() + ", remembered rows");
    };
    compare(&RecurrentCache::keys, int64_t{cache.num_kv_heads} * cache.key_dim, 0);
    compare(&RecurrentCache::values, int64_t{cache.num_kv_heads} * cache.value_dim, 0);
    // exp and log err by at most 2 ulp, each of the few operations around them by half an ulp.
    if (cache.gates == nullptr) return;
    compare(&RecurrentCache::gates, int64_t{cache.num_heads} * cache.key_dim, 12 * kEps);
  }

  // Steps that take three histories from position 0 to `tokens`. A step mixes prefill pieces and
  // decode rows of several histories. The last step is a decode row of each history.
  std::vector<std::vector<Entry>> MixedSteps(int32_t tokens) {
    std::vector<std::vector<Entry>> steps;
    std::vector<int32_t> positions(3, 0);
    while (std::any_of(positions.begin(), positions.end(),
                       [&](int32_t position) { return position < tokens - 1; })) {
      std::vector<Entry> entries;
      for (int64_t i = 2; i >= 0; --i) {
        int32_t& position = positions[static_cast<size_t>(i)];
        const bool is_decode = random_.Integer(0, 2) == 0;
        const int32_t count =
            is_decode ? 1 : static_cast<int32_t>(random_.Integer(1, 2 * shape_.grid + 3));
        const int32_t taken = std::min(count, tokens - 1 - position);
        if (taken == 0 || random_.Integer(0, 4) == 0) continue;
        entries.push_back({i, {position, taken, is_decode}});
        position += taken;
      }
      if (!entries.empty()) steps.push_back(entries);
    }
    std::vector<Entry>& last = steps.emplace_back();
    for (int64_t i = 2; i >= 0; --i) last.push_back({i, {tokens - 1, 1, true}});
    return steps;
  }

  static constexpr float kScale = 0.37f;

  bool whole_vectors_ = false;  // rows begin at multiples of 16 bytes
  RecurrenceShape shape_{};
  std::vector<float> log_decays_;
  std::vector<RecurrentHistory> histories_;
  std::vector<TestPlace> places_;
  Random random_{1};

 private:
  OwnedMatrix Rows(const std::vector<Entry>& entries, int64_t num_rows,
                   OwnedMatrix RecurrentHistory::*part, bool absolute) const {
    // Elements after those of a row are NaN.
    OwnedMatrix rows(num_rows, (histories_[0].*part).cols());
    while (whole_vectors_ && rows.view().stride % 4 != 0) {
      rows = OwnedMatrix(num_rows, rows.cols() + 1);
    }
    int64_t row = 0;
    for (const Entry& entry : entries) {
      const OwnedMatrix& from = histories_[static_cast<size_t>(entry.history)].*part;
      for (int64_t i = 0; i < entry.rows.num_rows; ++i, ++row) {
        for (int64_t c = 0; c < from.cols(); ++c) {
          const float value = from.at(entry.rows.first_position + i, c);
          rows.set(row, c, absolute ? std::abs(value) : value);
        }
      }
    }
    return rows;
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(LinearRecurrenceTest);

// The recurrence itself, in f64: S <- f S + k^T v; o = scale q S.
std::vector<double> TokenByToken(const RecurrenceShape& shape, const RecurrentHistory& history,
                                 const std::vector<float>& log_decays, float scale) {
  std::vector<double> outputs;
  for (int64_t h = 0; h < shape.num_heads; ++h) {
    const int64_t kv = h / (shape.num_heads / shape.num_kv_heads);
    std::vector<std::vector<double>> state(
        static_cast<size_t>(shape.key_dim),
        std::vector<double>(static_cast<size_t>(shape.value_dim), 0.0));
    for (int64_t t = 0; t < history.q.rows(); ++t) {
      for (int64_t j = 0; j < shape.value_dim; ++j) {
        double out = 0.0;
        for (int64_t i = 0; i < shape.key_dim; ++i) {
          const double f = log_decays.empty()
                               ? 1.0 / (1.0 + std::exp(-history.gate.at(t, h * shape.key_dim + i)))
                               : std::exp(static_cast<double>(log_decays[static_cast<size_t>(h)]));
          double& s = state[static_cast<size_t>(i)][static_cast<size_t>(j)];
          s = f * s + static_cast<double>(history.k.at(t, kv * shape.key_dim + i)) *
                          history.v.at(t, kv * shape.value_dim + j);
          out += history.q.at(t, h * shape.key_dim + i) * s;
        }
        outputs.push_back(scale * out);
      }
    }
  }
  return outputs;
}

// Outputs are around 10, so rounding them to f32 costs 6e-7. That states and log-gates are f32
// costs some more. Tensor cores sum an output in at most 3 (Dk + grid) / 8 instructions. Each
// instruction truncates toward zero, which takes away one eps of the output on average.
TEST_P(LinearRecurrenceTest, IsTheRecurrence) {
  constexpr int64_t kTokens = 150;
  for (const RecurrenceShape& shape :
       {RecurrenceShape{2, 1, 8, 5, 16}, RecurrenceShape{1, 1, 24, 33, 64}}) {
    for (bool gated : {false, true}) {
      const std::vector<float> log_decays(static_cast<size_t>(shape.num_heads), -0.05f);
      Prepare(shape, 1, kTokens, gated ? std::vector<float>{} : log_decays);
      const std::vector<double> expected = TokenByToken(shape, histories_[0], log_decays_, kScale);
      for (const OpTable* table : {&reference(), &ops()}) {
        const bool cuts_off = table == &ops() && traits().cuts_sums_off;
        const double cut_off =
            cuts_off ? 3 * kEps * static_cast<double>(shape.key_dim + shape.grid) / 8 : 0.0;
        const OwnedMatrix actual = Whole(*table, 0);
        size_t next = 0;
        for (int64_t h = 0; h < shape.num_heads; ++h) {
          for (int64_t t = 0; t < kTokens; ++t) {
            for (int64_t j = 0; j < shape.value_dim; ++j) {
              const double output = expected[next++];
              EXPECT_NEAR(actual.at(t, h * shape.value_dim + j), output,
                          1e-5 + cut_off * std::abs(output))
                  << table->name << ", " << shape.name() << ", token " << t;
            }
          }
        }
      }
    }
  }
}

TEST_P(LinearRecurrenceTest, MatchesTheReferenceWithFixedDecay) {
  for (const RecurrenceShape& shape : kShapes) {
    Prepare(shape, 3, 2 * shape.grid + 7, {0.0f});
    log_decays_.clear();
    for (int32_t h = 0; h < shape.num_heads; ++h) {
      log_decays_.push_back(
          -std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(shape.num_heads)));
    }
    ExpectMatch(MixedSteps(2 * shape.grid + 7), "fixed");
  }
}

TEST_P(LinearRecurrenceTest, MatchesTheReferenceWithGates) {
  for (const RecurrenceShape& shape : kShapes) {
    Prepare(shape, 3, 2 * shape.grid + 7, {});
    ExpectMatch(MixedSteps(2 * shape.grid + 7), "gated");
  }
}

// Steps of more decode rows than a block of the grid has rows. Several of them complete a block in
// the same step.
TEST_P(LinearRecurrenceTest, MatchesTheReferenceWithManyDecodeRows) {
  for (bool gated : {false, true}) {
    constexpr int64_t kHistories = 11;
    const RecurrenceShape shape = {2, 1, 12, 20, 4};
    Prepare(shape, kHistories, 9, gated ? std::vector<float>{} : std::vector<float>(2, -0.1f));
    std::vector<std::vector<Entry>> steps;
    for (int64_t t = 0; t < 9; ++t) {
      std::vector<Entry>& entries = steps.emplace_back();
      // Every third history misses the first step and stays one token behind.
      for (int64_t i = 0; i < kHistories; ++i) {
        const int64_t position = i % 3 == 0 ? t - 1 : t;
        if (position >= 0) entries.push_back({i, {position, 1, true}});
      }
    }
    ExpectMatch(steps, gated ? "gated" : "fixed");
  }
}

TEST_P(LinearRecurrenceTest, MatchesTheReferenceWithAStateThatNoSharedMemoryHolds) {
  for (bool gated : {false, true}) {
    const RecurrenceShape shape = {1, 1, 1100, 5, 16};
    Prepare(shape, 3, 20, gated ? std::vector<float>{} : std::vector<float>{-0.1f});
    ExpectMatch(MixedSteps(20), gated ? "gated" : "fixed");
  }
}

TEST_P(LinearRecurrenceTest, MatchesTheReferenceWithoutAndWithStrongDecay) {
  for (float log_decay : {0.0f, -1e-4f, -1.0f, -5.0f, -60.0f}) {
    const RecurrenceShape shape = {2, 1, 24, 40, 64};
    Prepare(shape, 3, 150, {log_decay, log_decay});
    ExpectMatch(MixedSteps(150), "log decay " + std::to_string(log_decay));
  }
}

// Gates from e^-30 to 1 - e^-30 in random order, and long runs of only weak or only strong gates.
TEST_P(LinearRecurrenceTest, MatchesTheReferenceWithExtremeGates) {
  for (const auto& [mean, spread] :
       {std::pair{0.0f, 30.0f}, {-30.0f, 1.0f}, {30.0f, 1.0f}, {8.0f, 12.0f}}) {
    const RecurrenceShape shape = {2, 1, 80, 24, 64};
    Prepare(shape, 3, 200, {}, spread);
    for (RecurrentHistory& history : histories_) {
      for (int64_t t = 0; t < 200; ++t) {
        for (int64_t i = 0; i < history.gate.cols(); ++i) {
          history.gate.set(t, i, history.gate.at(t, i) + mean);
        }
      }
    }
    ExpectMatch(MixedSteps(200), "gates around " + std::to_string(mean));
  }
}

TEST_P(LinearRecurrenceTest, HasTheSameBitsInAnyDivision) {
  for (bool gated : {false, true}) {
    for (const RecurrenceShape& shape :
         {RecurrenceShape{2, 1, 24, 40, 40}, RecurrenceShape{5, 1, 80, 17, 16},
          RecurrenceShape{1, 1, 128, 64, 64}, RecurrenceShape{1, 1, 33, 300, 24},
          RecurrenceShape{40, 4, 8, 40, 8}}) {
      const int32_t tokens = 2 * shape.grid + 11;
      const std::vector<float> log_decays(static_cast<size_t>(shape.num_heads), -0.03f);
      Prepare(shape, 3, tokens, gated ? std::vector<float>{} : log_decays);
      std::vector<OwnedMatrix> prefilled;
      for (int64_t i = 0; i < 3; ++i) prefilled.push_back(Whole(ops(), i));
      const std::vector<OwnedMatrix> decoded = OneByOne(ops());
      const RecurrentMemory memory = NewMemory();
      for (const std::vector<Entry>& entries : MixedSteps(tokens)) {
        const OwnedMatrix out = Step(ops(), ExecutorOf(2), memory, entries);
        int64_t row = 0;
        for (const auto& [history, rows] : entries) {
          const OwnedMatrix& expected =
              (rows.is_decode ? decoded : prefilled)[static_cast<size_t>(history)];
          ExpectSameBits(out.view().Rows(row, rows.num_rows),
                         expected.view().Rows(rows.first_position, rows.num_rows),
                         shape.name() + " at " + std::to_string(rows.first_position));
          row += rows.num_rows;
        }
      }
    }
  }
}

TEST_P(LinearRecurrenceTest, HasTheSameBitsOnAnyThreads) {
  for (bool gated : {false, true}) {
    for (const RecurrenceShape& shape :
         {RecurrenceShape{3, 3, 64, 64, 64}, RecurrenceShape{1, 1, 96, 520, 64}}) {
      Prepare(shape, 2, 130, gated ? std::vector<float>{} : std::vector<float>(3, -0.03f));
      const std::vector<Entry> entries = {{0, {0, 130, false}}, {1, {0, 70, false}}};
      const RecurrentMemory memory = NewMemory();
      const OwnedMatrix expected = Step(ops(), {}, memory, entries);
      for (uint32_t threads : ThreadCounts()) {
        const RecurrentMemory other = NewMemory();
        const OwnedMatrix actual = Step(ops(), ExecutorOf(threads), other, entries);
        ExpectSameBits(actual.view(), expected.view(), std::to_string(threads) + " threads");
        ExpectSameBytes(other.view().state, memory.view().state, memory.size(), "memory");
      }
    }
  }
}

// A GPU loads 16 bytes of a row together where each row begins at a multiple of 16 bytes.
TEST_P(LinearRecurrenceTest, MatchesTheReferenceWithRowsOfWholeVectors) {
  whole_vectors_ = true;
  for (bool gated : {false, true}) {
    for (const RecurrenceShape& shape :
         {RecurrenceShape{2, 1, 12, 20, 4}, RecurrenceShape{40, 4, 8, 40, 16},
          RecurrenceShape{34, 2, 20, 128, 4}}) {
      const auto heads = static_cast<size_t>(shape.num_heads);
      Prepare(shape, 3, 23, gated ? std::vector<float>{} : std::vector<float>(heads, -0.1f));
      ExpectMatch(MixedSteps(23), gated ? "gated" : "fixed");
      if (HasFatalFailure()) return;
    }
  }
}

// A GPU divides values into slices of 32 columns if it has one sequence, and of 128 if it has
// three.
TEST_P(LinearRecurrenceTest, HasTheSameBitsInSlicesOfAnySize) {
  const RecurrenceShape shape = {34, 2, 12, 128, 4};
  Prepare(shape, 3, 7, std::vector<float>(34, -0.03f));
  const RecurrentMemory together = NewMemory(), alone = NewMemory();
  std::vector<Entry> last;
  for (int64_t i = 0; i < 3; ++i) {
    Step(ops(), {}, together, {{i, {0, 6, false}}});
    Step(ops(), {}, alone, {{i, {0, 6, false}}});
    last.push_back({i, {6, 1, true}});
  }
  const OwnedMatrix out = Step(ops(), {}, together, last);
  for (int64_t i = 0; i < 3; ++i) {
    const OwnedMatrix one = Step(ops(), {}, alone, {last[static_cast<size_t>(i)]});
    ExpectSameBits(one.view(), out.view().Rows(i, 1), "sequence " + std::to_string(i));
  }
}

// A step that ends before the next grid line adds rows and changes nothing else. So a rollback to
// any position since the last grid line costs nothing.
TEST_P(LinearRecurrenceTest, WritesNoStateBetweenGridLines) {
  const RecurrenceShape shape = {2, 1, 24, 40, 16};
  Prepare(shape, 1, 40, {});
  const RecurrentMemory memory = NewMemory();
  const Matrix state = memory.state(places_[0].slot);
  const auto snapshot = [&] {
    OwnedMatrix copy(state.rows, state.cols);
    for (int64_t r = 0; r < state.rows; ++r) {
      for (int64_t c = 0; c < state.cols; ++c) copy.set(r, c, state.f32_row(r)[c]);
    }
    return copy;
  };
  Step(ops(), {}, memory, {{0, {0, 20, false}}});
  const OwnedMatrix before = snapshot();
  OwnedMatrix first;
  for (int64_t p = 20; p < 31; ++p) {
    OwnedMatrix out = Step(ops(), {}, memory, {{0, {p, 1, true}}});
    if (p == 23) first = std::move(out);
  }
  ExpectSameBits(state, before.view(), "state");
  const OwnedMatrix again = Step(ops(), {}, memory, {{0, {23, 1, true}}});
  ExpectSameBits(again.view(), first.view(), "after a rollback");
  for (int64_t p = 24; p < 32; ++p) Step(ops(), {}, memory, {{0, {p, 1, true}}});
  EXPECT_NE(state.f32_row(0)[0], before.at(0, 0));
}

TEST_P(LinearRecurrenceTest, RefusesWhatItCannotServe) {
  const RecurrenceShape shape = {1, 1, 8, 8, 64};
  Prepare(shape, 1, 4, {-1.0f});
  const RecurrentMemory memory = NewMemory();
  const TestBatch batch({{0, 4, false}}, places_);
  OwnedMatrix out(4, 8);
  LinearRecurrenceArgs args;
  args.batch = batch.layout();
  args.q = histories_[0].q.view();
  args.k = histories_[0].k.view();
  args.v = histories_[0].v.view();
  args.log_decay = log_decays_.data();
  args.cache = memory.view();
  args.out = out.view();
  OwnedStream small(LinearRecurrenceWorkspace(4, 1, 64, 8) - 1);
  ops().linear_recurrence(*small, args);
  EXPECT_EQ(small->status, OpStatus::kUnsupported);

  args.cache.grid = 100000;
  OwnedStream stream(LinearRecurrenceWorkspace(4, 1, 100000, 8));
  ops().linear_recurrence(*stream, args);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));
}

}  // namespace
}  // namespace longstream
