// The parts that the tests of attention share.
#include "tests/kernels/attention_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <variant>

namespace longstream {
namespace {

// Copies rows [begin, begin + count) of `from` to the rows of `to` that begin at `row`.
void CopyRows(const OwnedMatrix& from, int64_t begin, int64_t count, OwnedMatrix& to, int64_t row) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < from.cols(); ++c) to.set(row + i, c, from.at(begin + i, c));
  }
}

std::vector<TestSequence> SequencesOf(const std::vector<AttentionEntry>& entries) {
  std::vector<TestSequence> sequences;
  for (const AttentionEntry& entry : entries) sequences.push_back(entry.rows);
  return sequences;
}

std::vector<int64_t> PlacesOf(const std::vector<AttentionEntry>& entries) {
  std::vector<int64_t> which;
  for (const AttentionEntry& entry : entries) which.push_back(entry.history);
  return which;
}

// Decode rows and prefill pieces that begin and end around the edges of pages, tiles and key
// blocks.
std::vector<AttentionEntry> MixedBatch() {
  return {{0, {130, 1, true}}, {1, {0, 70, false}},    {2, {60, 100, false}}, {3, {63, 1, true}},
          {4, {64, 1, true}},  {5, {0, 1, true}},      {6, {0, 1, false}},    {7, {255, 45, false}},
          {8, {299, 1, true}}, {9, {127, 130, false}}, {10, {200, 1, false}}};
}
// With LONGSTREAM_FEW_ROWS (set with sanitizers), a mixed batch has half of the shapes with
// narrow heads, the next one has the others, and no row is run again to compare bits. The same
// kernels run.
bool RunsFewRows() {
  static const bool few = std::getenv("LONGSTREAM_FEW_ROWS") != nullptr;
  return few;
}

constexpr int64_t kMixedHistories = 11;
constexpr int64_t kMixedTokens = 300;

// The type of the keys and values of a history if its pages have `type`. For int8 pages they are
// f32, and the op rounds them.
DType RowType(DType type) { return type == DType::kI8 ? DType::kF32 : type; }

}  // namespace

std::string NameOf(const AttentionShape& shape, DType type) {
  return std::string(NameOf(type)) + " H " + std::to_string(shape.num_heads) + "/" +
         std::to_string(shape.num_kv_heads) + " D " + std::to_string(shape.head_dim) +
         (shape.value_slices == 1 ? "" : " slices " + std::to_string(shape.value_slices));
}

AttentionHistory::AttentionHistory(int64_t tokens, const AttentionShape& shape, DType type,
                                   Random& random)
    : q(tokens, shape.num_heads * shape.head_dim, random),
      q_far(tokens, shape.num_heads * shape.head_dim, random),
      k(tokens, shape.num_kv_heads * shape.head_dim, random, 1.0f, RowType(type)),
      k_near(tokens, shape.num_kv_heads * shape.head_dim, random, 1.0f, RingType(type)),
      v(tokens, shape.num_kv_heads * shape.value_slices * shape.head_dim, random, 1.0f,
        RowType(type)) {}

AttentionStep::AttentionStep(const std::vector<AttentionHistory>& histories,
                             const std::vector<AttentionEntry>& entries,
                             const std::vector<TestPlace>& places, int64_t gap)
    : batch(SequencesOf(entries), places, PlacesOf(entries)) {
  const AttentionHistory& first = histories.front();
  const int64_t rows = batch.num_rows();
  q = OwnedMatrix(rows, first.q.cols());
  q_far = OwnedMatrix(rows, first.q.cols());
  const int64_t key_cols = first.k.cols() + gap;
  k = OwnedMatrix(rows, key_cols, first.k.view().type);
  k_near = OwnedMatrix(rows, key_cols, first.k_near.view().type);
  v = OwnedMatrix(rows, first.v.cols() + gap, first.v.view().type);
  int64_t row = 0;
  for (const auto& [index, part] : entries) {
    const AttentionHistory& history = histories[static_cast<size_t>(index)];
    CopyRows(history.q, part.first_position, part.num_rows, q, row);
    CopyRows(history.q_far, part.first_position, part.num_rows, q_far, row);
    CopyRows(history.k, part.first_position, part.num_rows, k, row);
    CopyRows(history.k_near, part.first_position, part.num_rows, k_near, row);
    CopyRows(history.v, part.first_position, part.num_rows, v, row);
    row += part.num_rows;
  }
}

void AttentionTest::MakeHistories(int64_t count, int64_t tokens, const AttentionShape& shape,
                                  DType type, int32_t page_tokens) {
  shape_ = shape;
  type_ = type;
  page_tokens_ = page_tokens;
  histories_.clear();
  for (int64_t i = 0; i < count; ++i) histories_.emplace_back(tokens, shape, type, random_);
  places_ = ScatteredPlaces(count, tokens, page_tokens, random_);
}

float AttentionTest::scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

OwnedMatrix AttentionTest::AlibiSlopes() const {
  OwnedMatrix slopes(1, shape_.num_heads);
  const auto heads = static_cast<float>(shape_.num_heads);
  for (int32_t h = 0; h < shape_.num_heads; ++h) {
    slopes.set(0, h, std::exp2(-8.0f * static_cast<float>(h + 1) / heads));
  }
  return slopes;
}

std::vector<DType> AttentionTest::AndInt8(std::vector<DType> types) const {
  if (types_.back() == DType::kI8) types.push_back(DType::kI8);
  return types;
}

OwnedPages AttentionTest::Pages(const std::vector<AttentionEntry>& entries, bool near_keys) const {
  OwnedPages pages(type_, NumPages(places_), page_tokens_, shape_.num_kv_heads, shape_.head_dim,
                   shape_.value_slices);
  for (const auto& [index, part] : entries) {
    const AttentionHistory& history = histories_[static_cast<size_t>(index)];
    for (int64_t j = 0; j < part.end(); ++j) {
      pages.Write(places_[static_cast<size_t>(index)], j, near_keys ? history.k_near : history.k,
                  history.v, j);
    }
  }
  return pages;
}

OwnedRings AttentionTest::Rings(const std::vector<AttentionEntry>& entries, int32_t window,
                                int32_t slots, bool near_keys) const {
  OwnedRings rings(RingType(type_), NumSlots(places_), slots, shape_.num_kv_heads, shape_.head_dim,
                   !near_keys, shape_.value_slices);
  for (const auto& [index, part] : entries) {
    const AttentionHistory& history = histories_[static_cast<size_t>(index)];
    const int64_t first = std::max<int64_t>(0, part.first_position - window + 1);
    for (int64_t j = first; j < part.first_position; ++j) {
      rings.Write(places_[static_cast<size_t>(index)], j, near_keys ? history.k_near : history.k,
                  history.v, j);
    }
  }
  return rings;
}

AttentionArgs AttentionTest::Args(const KeyView& keys, const AttentionStep& step,
                                  const OwnedMatrix& out) const {
  return {.batch = step.batch.layout(),
          .num_heads = shape_.num_heads,
          .window = std::holds_alternative<RingKeys>(keys) ? window_ : 0,
          .scale = scale(),
          .softcap = softcap_,
          .q = step.q.view(),
          .keys = keys,
          .max_position = step.batch.max_position(),
          .out = out.view()};
}

OwnedMatrix AttentionTest::RunOver(const KeyView& keys, const AttentionStep& step,
                                   const OpTable& table, const Executor& executor) const {
  OwnedMatrix out(step.batch.num_rows(), shape_.num_out_heads() * shape_.head_dim);
  AttentionArgs args = Args(keys, step, out);
  const OwnedMatrix slopes = AlibiSlopes();
  if (alibi_) args.alibi_slopes = slopes.view().f32_row(0);
  const int64_t reach = args.window > 0 ? args.window - 1 : args.max_position;
  OwnedStream stream(AttentionWorkspace(step.batch.num_decode_rows(), shape_.num_out_heads(),
                                        shape_.head_dim, reach),
                     executor);
  table.attention(*stream, args);
  EXPECT_TRUE(stream->ok());
  return out;
}

void AttentionTest::ExpectRefused(const AttentionArgs& args) const {
  for (const OpTable* table : {&ops(), &reference()}) {
    OwnedStream stream(AttentionWorkspace(args.batch.num_decode_rows, shape_.num_out_heads(),
                                          shape_.head_dim, args.max_position));
    table->attention(*stream, args);
    EXPECT_EQ(stream->status, OpStatus::kUnsupported) << table->name;
    EXPECT_TRUE(std::isnan(args.out.f32_row(0)[0])) << table->name;
  }
}

void AttentionTest::ExpectMatch(const std::vector<AttentionEntry>& entries,
                                const std::string& what) {
  const OwnedMatrix actual = Run(ops(), ExecutorOf(2), entries);
  if (traits().prefill_bits.queries == LibraryTraits::kBF16Bits) RoundQueries(entries);
  const OwnedMatrix expected = Run(reference(), {}, entries);
  int64_t row = 0;
  for (const auto& [index, part] : entries) {
    ExpectNear(actual.view().Rows(row, part.num_rows), expected.view().Rows(row, part.num_rows),
               Tolerance(part.is_decode), 0,
               NameOf(shape_, type_) + " pages of " + std::to_string(page_tokens_) + " entry " +
                   std::to_string(index) + " " + what);
    row += part.num_rows;
  }
  actual.CheckGaps();
}

// Rounds the queries of prefill rows that meet bf16 keys, as the library does.
void AttentionTest::RoundQueries(const std::vector<AttentionEntry>& entries) {
  const float factor = traits().rounds_scaled_queries ? scale() : 1.0f;
  const auto round = [&](OwnedMatrix& q, int64_t row) {
    for (int64_t c = 0; c < q.cols(); ++c) {
      q.set(row, c, RoundTo(DType::kBF16, factor * q.at(row, c)) / factor);
    }
  };
  const bool near_bf16 = type_ == DType::kBF16 || (type_ == DType::kI8 && has_near_keys_);
  for (const auto& [index, part] : entries) {
    if (part.is_decode) continue;
    AttentionHistory& history = histories_[static_cast<size_t>(index)];
    for (int64_t j = part.first_position; j < part.end(); ++j) {
      if (near_bf16) round(history.q, j);
      if (type_ == DType::kBF16) round(history.q_far, j);
    }
  }
}

double AttentionTest::Tolerance(bool is_decode) const {
  // An error of e in a score changes its weight by a factor of 1 + e. It changes an output by at
  // most 2 e sum_j p_j |v_j|, and this sum is below 4. A score is a sum of D products, each around
  // 1 / sqrt(D). Its partial sums stay below 8, and its D rounding errors add up like a random
  // walk, so e < 4 sqrt(D) eps 8. The sums over the keys add a random walk of their own errors,
  // whose terms shrink with the number of keys. 16 eps covers this second walk and the exponential.
  const double e = (32 * std::sqrt(static_cast<double>(shape_.head_dim)) + 16) * kEps;
  // ALiBi adds a term b_j = m (p - j) to a score, and six more errors of eps b_j each. Two are
  // errors of the term itself and one is that of the addition. The other three are those of the
  // distance to the maximum, of its scale and of its exponential. By convexity the softmax's mean
  // of b is at most ln sum_j e^(s_j) - s_p, where s are the scores without b. That is below 16 for
  // 5000 scores of variance 1.
  const double distances = alibi_ ? 6 * 16 * kEps : 0.0;
  // A cap c adds the errors of x / c, of tanh and of c tanh, together 8 eps of the score.
  const double cap = softcap_ > 0.0f ? 8 * 8 * kEps : 0.0;
  const double exact = 2 * (e + distances + cap) * 4;
  if (type_ == DType::kI8) return exact + Int8Rounding();
  if (type_ != DType::kBF16) return exact;
  // If weights are rounded by a factor of 1 + u, an output changes by at most u sum_j p_j |v_j|. If
  // the library rounds queries to bf16, the test has rounded the reference's queries too. Queries
  // of 17 bits move a score by a random walk of D errors of u |q_d k_d| / sqrt(D), which stays
  // below 8 u.
  const auto rounding = [](int bits) { return bits == 0 ? 0.0 : std::ldexp(1.0, -1 - bits); };
  const auto [queries, weights] = is_decode ? traits().decode_bits : traits().prefill_bits;
  const double of_queries =
      queries == LibraryTraits::kBF16Bits ? 0.0 : 2 * 8 * rounding(queries) * 4;
  return exact + of_queries + rounding(weights) * 4;
}

double AttentionTest::Int8Rounding() const {
  if (traits().int8_weight_bits == 0) return 0;
  // Rounding a number of a query moves it by at most half a step: 2^-16 of the query's largest
  // number, which is below 5 for N(0, 1). The moves are evenly spread. A score moves by a random
  // walk of D such moves times k_d / sqrt(D). Four deviations of the walk are
  // 4 * 5 / sqrt(3) * 2^-16, which is below 12 * 2^-16. An output then changes as Tolerance says.
  const double queries = 2 * (12 * 0x1p-16) * 4;
  // Rounding moves each weight of a block by at most half a step. With 16 bits that is 2^-17 of the
  // block's largest p s, where p is a weight and s the scale of its value. The sum over a block
  // moves by a random walk of 64 such moves times numbers up to 127. It is below
  // 4 * 8 / sqrt(3) * 2^-17 p s 127 < 19 * 2^-17 p |v|. Here |v| is below 5, and the largest p of
  // all blocks add up to at most the sum of all weights.
  const double weights = 19 * std::ldexp(1.0, -1 - traits().int8_weight_bits) * 5;
  return queries + weights;
}

void AttentionTest::ExpectMatchInMixedBatch(const std::string& what) {
  // A library may compute several of the eight K/V heads together.
  constexpr AttentionShape kShapes[] = {{1, 1, 8},   {6, 2, 24}, {5, 1, 64}, {4, 4, 80},
                                        {4, 1, 128}, {8, 8, 40}, {16, 8, 32}};
  size_t place = mixed_batches_++;
  for (const AttentionShape& shape : kShapes) {
    // Each shape takes one pair of type and page length in each call of this function. The number
    // of shapes and the number of pairs have no common factor, so a shape gets another pair in the
    // next call.
    const DType type = types_[next_pair_ % types_.size()];
    const int32_t page_tokens = next_pair_ / types_.size() % 2 == 0 ? 16 : 64;
    ++next_pair_;
    if (RunsFewRows() && shape.head_dim <= 64 && place++ % 2 == 1) continue;
    MakeHistories(kMixedHistories, kMixedTokens, shape, type, page_tokens);
    ExpectMatch(MixedBatch(), what);
  }
}

void AttentionTest::ExpectMatchOfLargestIntegers() {
  if (types_.back() != DType::kI8) return;
  constexpr int64_t kTokens = 200;
  for (const float key_sign : {1.0f, -1.0f}) {
    for (const float value_sign : {1.0f, -1.0f}) {
      MakeHistories(1, kTokens, {3, 1, kMaxHeadDim}, DType::kI8, 64);
      AttentionHistory& history = histories_[0];
      // Every score is 4 or -4. Neighbouring dimensions have opposite signs.
      const auto fill = [&](OwnedMatrix& rows, float value) {
        for (int64_t j = 0; j < kTokens; ++j) {
          for (int64_t c = 0; c < rows.cols(); ++c) rows.set(j, c, c % 2 == 0 ? value : -value);
        }
      };
      for (OwnedMatrix* q : {&history.q, &history.q_far}) fill(*q, 0.25f);
      for (OwnedMatrix* k : {&history.k, &history.k_near}) fill(*k, key_sign);
      fill(history.v, value_sign);
      ExpectMatch({{0, {kTokens - 1, 1, true}}}, "largest integers, decode");
      ExpectMatch({{0, {kTokens - 70, 70, false}}}, "largest integers, prefill");
    }
  }
}

void AttentionTest::ExpectSameBitsAlone() {
  for (const AttentionShape& shape :
       {AttentionShape{6, 2, 24}, AttentionShape{2, 1, 64}, AttentionShape{16, 8, 32}}) {
    for (const DType type : AndInt8({DType::kBF16})) ExpectSameBitsAlone(shape, type);
  }
}

void AttentionTest::ExpectSameBitsAlone(const AttentionShape& shape, DType type) {
  MakeHistories(kMixedHistories, kMixedTokens, shape, type, type == DType::kI8 ? 64 : 16);
  const OwnedMatrix together = Run(ops(), ExecutorOf(2), MixedBatch());
  int64_t row = 0;
  for (const AttentionEntry& entry : MixedBatch()) {
    const OwnedMatrix alone = Run(ops(), {}, {entry});
    ExpectSameBits(alone.view(), together.view().Rows(row, entry.rows.num_rows),
                   NameOf(shape, type) + " alone: entry " + std::to_string(entry.history));
    row += entry.rows.num_rows;
  }
}

void AttentionTest::ExpectSameBitsOnAnyThreads() {
  for (const AttentionShape& shape : {AttentionShape{6, 3, 64}, AttentionShape{8, 8, 32}}) {
    for (const DType type : AndInt8({DType::kF32})) {
      MakeHistories(kMixedHistories, kMixedTokens, shape, type);
      const OwnedMatrix expected = Run(ops(), {}, MixedBatch());
      for (uint32_t threads : ThreadCounts()) {
        ExpectSameBits(Run(ops(), ExecutorOf(threads), MixedBatch()).view(), expected.view(),
                       std::to_string(threads) + " threads, " + NameOf(shape, type));
      }
    }
  }
}

void AttentionTest::ExpectMatchAndSameBitsWithSoftcap() {
  // Scores have a variance of 1. The first cap, 0.7, bends them; the second is Gemma's. A cap is
  // only a number to a kernel, so an interpreted library tests the first cap alone, with all shapes
  // of heads.
  for (const float cap : {0.7f, 50.0f}) {
    if (traits().interpreted && cap > 1.0f) continue;
    softcap_ = cap;
    ExpectMatchInMixedBatch("softcap " + std::to_string(cap));
  }
  if (RunsFewRows()) return;
  ExpectSameBitsAlone();
  ExpectSameBitsInPieces();
}

void AttentionTest::ExpectSameBitsInPieces() {
  for (const AttentionShape& shape : {AttentionShape{3, 1, 24}, AttentionShape{1, 1, 64}}) {
    for (const DType type : AndInt8({DType::kBF16})) ExpectSameBitsInPieces(shape, type);
  }
}

void AttentionTest::ExpectSameBitsInPieces(const AttentionShape& shape, DType type) {
  MakeHistories(1, kMixedTokens, shape, type, type == DType::kI8 ? 64 : 16);
  const OwnedMatrix whole = Run(ops(), {}, {{0, {0, kMixedTokens, false}}});
  for (const std::vector<int32_t>& pieces :
       {std::vector<int32_t>{64, 128, 64, 44}, std::vector<int32_t>{1, 62, 2, 100, 7, 128}}) {
    int64_t position = 0;
    for (int32_t piece : pieces) {
      const OwnedMatrix part = Run(ops(), {}, {{0, {position, piece, false}}});
      ExpectSameBits(part.view(), whole.view().Rows(position, piece),
                     NameOf(shape, type) + " piece at " + std::to_string(position));
      position += piece;
    }
    EXPECT_EQ(position, kMixedTokens);
  }
}

void AttentionTest::ExpectSlicesOfValues(const std::string& what) {
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 24, 5}, AttentionShape{1, 1, 64, 4}, AttentionShape{4, 2, 40, 2}}) {
    for (const DType type : AndInt8({DType::kF32, DType::kBF16})) {
      MakeHistories(kMixedHistories, kMixedTokens, shape, type, 64);
      ExpectMatch(MixedBatch(), what);
    }
    if (RunsFewRows()) continue;
    for (const DType type : AndInt8({DType::kBF16})) {
      ExpectSameBitsAlone(shape, type);
      ExpectSameBitsInPieces(shape, type);
    }
  }
}

}  // namespace longstream
