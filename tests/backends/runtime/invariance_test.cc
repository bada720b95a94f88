// Results are equal to the bit for every kind of layer on every instruction set: in any batch,
// after forks, rollbacks and moves, and for any cut of a prefill at grid lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/core/thread_pool.h"
#include "kernels/ops/attention/attention.h"
#include "tests/backends/caches/memory_stream.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/backends/runtime/reused_memory.h"
#include "tests/kernels/cpu/amx_plain.h"

namespace longstream {
namespace {

constexpr char kExperts[] = "window+full*";
constexpr char kMixed[] = "window+rerope+lightning+nope+gated+leaky";

const std::vector<std::string> kPlans = {"full+full",
                                         "window+window",
                                         "rerope+leaky",
                                         "chunked+gated+chunked_window",
                                         "lightning+gated+nope",
                                         "full+lightning",
                                         "full+gated",
                                         kExperts,
                                         kMixed};

// The root mean square of found - expected, divided by the root mean square of expected.
double RelativeDistance(const std::vector<float>& found, const std::vector<float>& expected) {
  double squares = 0;
  double expected_squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    squares += std::pow(double{found[i]} - expected[i], 2);
    expected_squares += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(squares / expected_squares);
}

float LargestDistance(const std::vector<float>& found, const std::vector<float>& expected,
                      size_t count) {
  float distance = 0;
  for (size_t i = 0; i < count; ++i) {
    distance = std::max(distance, std::abs(found[i] - expected[i]));
  }
  return distance;
}

// The types of a model's weights and caches.
struct Types {
  DType weights;
  DType cache;
};

class InvarianceTest : public testing::TestWithParam<std::tuple<std::string, std::string, Types>> {
 protected:
  InvarianceTest() : tokens_(RandomTokens(kPrompt + kTail, 71)), model_(MakeModel()) {}

  static ModelSpec Spec() {
    RandomShape shape;
    shape.chunk_size = 96;
    return RandomSpec(std::get<0>(GetParam()), shape);
  }
  static const OpTable& ops() { return OpsOfSet(std::get<1>(GetParam())); }
  static Types types() { return std::get<2>(GetParam()); }
  static ModelWeights Weights(uint64_t seed = 1) {
    return RandomWeights(Spec(), types().weights, ops(), {}, seed);
  }

  static std::unique_ptr<Model> MakeModel(ModelWeights weights, DType cache_type,
                                          const Executor& executor = {}) {
    return std::make_unique<Model>(Spec(), std::move(weights), cache_type, ops(), executor,
                                   ModelLimits{0, 1024, 8});
  }
  static std::unique_ptr<Model> MakeModel(const Executor& executor = {}) {
    return MakeModel(Weights(), types().cache, executor);
  }

  // The logits of the prompt: in one piece, and token by token.
  std::pair<std::vector<float>, std::vector<float>> BothWays(Model& model) {
    const auto by_piece = CreateReserved(model, kPrompt);
    const auto by_token = CreateReserved(model, kPrompt);
    return {Prefill(model, *by_piece, prompt()), Decode(model, *by_token, prompt())};
  }

  std::span<const int32_t> prompt() const { return std::span(tokens_).first(kPrompt); }
  std::span<const int32_t> tail() const { return std::span(tokens_).last(kTail); }

  // The logits of the tail, decoded after the prompt by a sequence that is alone in the model.
  std::vector<float> Expected() {
    const auto sequence = CreateReserved(*model_, kPrompt + kTail);
    Prefill(*model_, *sequence, prompt());
    return Decode(*model_, *sequence, tail());
  }

  static constexpr size_t kPrompt = 201;  // three grid lines, ten windows
  static constexpr size_t kTail = 70;     // crosses a grid line and a page
  const std::vector<int32_t> tokens_;
  const std::unique_ptr<Model> model_;
};

TEST_P(InvarianceTest, Batch) {
  const std::vector<float> expected = Expected();
  // Other sequences before, between and behind, which decode or are in the middle of a prefill.
  std::vector<std::unique_ptr<ls_sequence>> others;
  for (int i = 0; i < 3; ++i) others.push_back(CreateReserved(*model_, 1500));
  const auto sequence = CreateReserved(*model_, kPrompt + kTail);
  const std::vector<int32_t> noise = RandomTokens(97, 71, 5);
  std::vector<PieceResult> results = Step(
      *model_, {{others[0].get(), noise}, {sequence.get(), {prompt().begin(), prompt().end()}}});
  std::vector<float> found;
  for (size_t i = 0; i < kTail; ++i) {
    const std::vector<int32_t> piece(noise.begin(), noise.begin() + 1 + i % 9);
    std::vector<Piece> pieces = {{others[i % 3].get(), piece},
                                 {sequence.get(), {tail()[i]}, /*is_decode=*/true},
                                 {others[(i + 1) % 3].get(), {noise[i]}, /*is_decode=*/true}};
    if (i % 2 == 0) std::swap(pieces[0], pieces[1]);
    results = Step(*model_, pieces);
    const std::vector<float>& logits = results[i % 2 == 0 ? 0 : 1].logits;
    found.insert(found.end(), logits.begin(), logits.end());
  }
  EXPECT_TRUE(found == expected);
}

// Rows that need no logits end in the last layer's mixer, which fills their caches. In a parallel
// block they end after the layer.
TEST_P(InvarianceTest, WantedRows) {
  for (const bool parallel : {false, true}) {
    ModelSpec spec = Spec();
    spec.parallel = parallel;
    ModelWeights weights = RandomWeights(spec, types().weights, ops(), {}, 1);
    Model model(spec, std::move(weights), types().cache, ops(), {}, ModelLimits{0, 1024, 8});
    const size_t vocabulary = model.info().vocabulary_size;
    const auto whole = CreateReserved(model, kPrompt + 1);
    const auto half = CreateReserved(model, kPrompt + 1);
    const std::vector<float> expected = Prefill(model, *whole, prompt());
    Prefill(model, *half, prompt().first(100));
    const std::string bytes = ExportBytes(model, *whole);

    std::unique_ptr<ls_sequence> sequences[4];
    for (auto& sequence : sequences) sequence = CreateReserved(model, kPrompt + 1);
    const std::vector<int32_t> read(prompt().begin(), prompt().end());
    std::vector<PieceResult> results =
        Step(model, {{sequences[0].get(), read, /*is_decode=*/false, LS_ROWS_LAST},
                     {sequences[1].get(), read, /*is_decode=*/false, LS_ROWS_NONE},
                     {sequences[2].get(), {read.begin(), read.begin() + 100}, false, LS_ROWS_ALL},
                     {sequences[3].get(), read, /*is_decode=*/false, LS_ROWS_LAST}});
    const std::vector<float> last(expected.end() - static_cast<ptrdiff_t>(vocabulary),
                                  expected.end());
    EXPECT_TRUE(results[0].logits == last);
    EXPECT_TRUE(results[1].logits.empty());
    EXPECT_TRUE(std::equal(results[2].logits.begin(), results[2].logits.end(), expected.begin(),
                           expected.begin() + static_cast<ptrdiff_t>(100 * vocabulary)));
    EXPECT_TRUE(results[3].logits == last);
    for (const int i : {0, 1, 3}) EXPECT_TRUE(ExportBytes(model, *sequences[i]) == bytes) << i;
    EXPECT_TRUE(ExportBytes(model, *sequences[2]) == ExportBytes(model, *half));

    // Decode rows before prefill rows, with and without logits; then a step without any logits.
    const std::vector<float> next = Decode(model, *whole, tail().first(1));
    results =
        Step(model, {{sequences[0].get(), {tail()[0]}, /*is_decode=*/true, LS_ROWS_NONE},
                     {sequences[1].get(), {tail()[0]}, /*is_decode=*/true, LS_ROWS_LAST},
                     {sequences[2].get(), {read.begin() + 100, read.end()}, false, LS_ROWS_LAST}});
    EXPECT_TRUE(results[1].logits == next);
    const std::vector<float> rest = Prefill(model, *half, prompt().subspan(100));
    EXPECT_TRUE(std::equal(results[2].logits.begin(), results[2].logits.end(),
                           rest.end() - static_cast<ptrdiff_t>(vocabulary), rest.end()));
    results = Step(model, {{sequences[3].get(), {tail()[0]}, /*is_decode=*/true, LS_ROWS_NONE}});
    EXPECT_EQ(results[0].code, LS_OK) << results[0].message;
    for (const int i : {0, 1, 3}) {
      EXPECT_TRUE(ExportBytes(model, *sequences[i]) == ExportBytes(model, *whole)) << i;
    }
  }
}

// Past kAttentionSplit the context of a decode row is cut into parts. Threads share the parts, and
// their results are merged.
TEST_P(InvarianceTest, ThreadsAndBatchPastADecodeSplit) {
  constexpr size_t kLong = 1500;
  constexpr size_t kFew = 8;
  static_assert(kLong >= kAttentionSplit);
  const std::vector<int32_t> tokens = RandomTokens(kLong + kFew, 71, 4);
  const auto last = std::span(tokens).last(kFew);
  const size_t lengths[] = {1024, kLong - 1024};
  std::vector<float> expected;
  for (const uint32_t threads : {1u, 3u}) {
    ThreadPool pool(threads);
    const std::unique_ptr<Model> model = MakeModel(pool.AsExecutor());
    const auto sequence = CreateReserved(*model, tokens.size());
    std::vector<float> found = Feed(*model, *sequence, std::span(tokens).first(kLong), lengths);
    const auto fork = model->Fork(*sequence);
    model->Reserve(*fork, kFew);
    const size_t alone = found.size();
    const std::vector<float> decoded = Decode(*model, *sequence, last);
    found.insert(found.end(), decoded.begin(), decoded.end());

    const auto other = CreateReserved(*model, kFew);
    std::vector<float> batched;
    for (const int32_t token : last) {
      const std::vector<PieceResult> results = Step(
          *model,
          {{other.get(), {token}, /*is_decode=*/true}, {fork.get(), {token}, /*is_decode=*/true}});
      batched.insert(batched.end(), results[1].logits.begin(), results[1].logits.end());
    }
    EXPECT_TRUE(std::equal(batched.begin(), batched.end(), found.begin() + alone, found.end()))
        << threads << " threads: a short row beside the long one";
    if (expected.empty()) expected = found;
    EXPECT_TRUE(found == expected) << threads << " threads";
  }
}

TEST_P(InvarianceTest, CutsAtGridLines) {
  const auto whole = CreateReserved(*model_, kPrompt);
  const std::vector<float> expected = Prefill(*model_, *whole, prompt());
  const size_t grid = model_->info().prefill_grid;
  for (const std::vector<size_t>& lengths :
       {std::vector<size_t>{grid}, std::vector<size_t>{128, 73}, std::vector<size_t>{64, 137},
        std::vector<size_t>{3 * grid, grid}}) {
    const auto sequence = CreateReserved(*model_, kPrompt);
    EXPECT_TRUE(Feed(*model_, *sequence, prompt(), lengths) == expected) << lengths[0];
    EXPECT_TRUE(ExportBytes(*model_, *sequence) == ExportBytes(*model_, *whole)) << lengths[0];
  }
}

// A model with attention only lets a host cut more finely than a recurrence does.
TEST_P(InvarianceTest, OnlyARecurrenceNeedsItsGrid) {
  const bool recurrent = model_->info().state_bytes_per_sequence > 0;
  EXPECT_EQ(model_->info().prefill_grid, recurrent ? 64u : 16u);
}

TEST_P(InvarianceTest, Fork) {
  const std::vector<float> expected = Expected();
  const auto source = CreateReserved(*model_, kPrompt + kTail);
  Prefill(*model_, *source, prompt());
  const auto fork = model_->Fork(*source);
  const auto second = model_->Fork(*fork);
  // The second fork decodes other tokens first. A page that the forks shared by mistake would show.
  model_->Reserve(*second, kTail);
  Decode(*model_, *second, RandomTokens(kTail, 71, 9));
  EXPECT_TRUE(Decode(*model_, *source, tail()) == expected) << "the source";
  model_->Reserve(*fork, kTail);
  EXPECT_TRUE(Decode(*model_, *fork, tail()) == expected) << "the fork";
  EXPECT_TRUE(ExportBytes(*model_, *fork) == ExportBytes(*model_, *source));
}

TEST_P(InvarianceTest, Truncate) {
  const std::vector<float> expected = Expected();
  const size_t row = model_->info().vocabulary_size;
  const auto sequence = CreateReserved(*model_, kPrompt + 2 * kTail);
  Prefill(*model_, *sequence, prompt());
  model_->MarkRollbackPoint(*sequence);
  for (const size_t kept : {kTail - 1, size_t{60}, size_t{54}, size_t{1}, size_t{0}}) {
    // Decode other tokens, then go back to where they began, or before that.
    Decode(*model_, *sequence, tail().first(kept));
    Decode(*model_, *sequence, RandomTokens(kTail, 71, 3));
    const uint64_t restored = model_->Truncate(*sequence, kPrompt + kept);
    ASSERT_GE(restored, kPrompt);
    ASSERT_LE(restored, kPrompt + kept);
    const size_t first = restored - kPrompt;
    const std::vector<float> found = Decode(*model_, *sequence, tail().subspan(first));
    EXPECT_TRUE(
        std::equal(found.begin(), found.end(), expected.begin() + first * row, expected.end()))
        << "kept " << kept << ", restored " << restored;
    EXPECT_EQ(model_->Truncate(*sequence, kPrompt), kPrompt);
  }
}

TEST_P(InvarianceTest, ExportAndImport) {
  const std::vector<float> expected = Expected();
  const auto source = CreateReserved(*model_, kPrompt);
  Prefill(*model_, *source, prompt());
  MemoryStream stream(ExportBytes(*model_, *source));
  const auto copy = model_->Import(stream.reader());
  EXPECT_TRUE(stream.at_end());
  EXPECT_TRUE(ExportBytes(*model_, *copy) == stream.bytes());
  model_->Reserve(*copy, kTail);
  EXPECT_TRUE(Decode(*model_, *copy, tail()) == expected);
}

// Prefill and decode sum in different orders. With f32 weights and an f32 cache this is the only
// difference, and logits differ by about 1e-6. Weights of other types multiply rounded rows (to
// bf16, or to 127ths of a group's largest number). About once in 1e5 numbers, a sum that differs in
// its last bits is rounded to the other side. From there on the logits of the prompt differ by
// whole roundings, because each one causes others. This happens in 7 of 60 models of two full
// layers. So the test only expects that most of 15 models agree over the first tokens as they do
// with f32 weights. With int8 pages it happens as rarely. The test uses int8 pages in models
// without rings only, because rings beside them would be bf16.
TEST_P(InvarianceTest, PrefillAgreesWithDecode) {
  constexpr float kSummation = 1e-4f;
  constexpr uint64_t kModels = 15;
  const bool has_rings = model_->info().window_bytes_per_sequence > 0;
  const DType cache = types().cache == DType::kI8 && !has_rings ? DType::kI8 : DType::kF32;
  uint64_t agreeing = 0;
  for (uint64_t seed = 1; seed <= kModels; ++seed) {
    const std::unique_ptr<Model> model = MakeModel(Weights(seed), cache);
    const auto [by_piece, by_token] = BothWays(*model);
    const size_t first = (kPrefillGrid + 1) * static_cast<size_t>(model->info().vocabulary_size);
    if (LargestDistance(by_piece, by_token, first) <= kSummation) ++agreeing;
    if (types().weights != DType::kF32 || cache != DType::kF32) continue;
    EXPECT_LE(LargestDistance(by_piece, by_token, by_piece.size()), kSummation) << seed;
  }
  EXPECT_GT(agreeing, kModels / 2);
}

// With the cache type that belongs to these weights, attention also rounds in different places:
// prefill may round queries and weights to bf16, while decode keeps 17 bits. Then no two logits
// need be equal, and they may be far apart after a row that is small before its norm. But prefill
// is as near as decode to a model that rounds nothing: its error (root mean square) is at most
// kMost times that of decode.
TEST_P(InvarianceTest, PrefillIsAsExactAsDecode) {
  if (types().cache == DType::kF32) return;
  constexpr double kMost = 1.5;
  double most_decode = 0;
  double most_prefill = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    ModelWeights rounded = RandomWeightsAsIn(types().weights, Spec(), ops(), seed);
    const std::unique_ptr<Model> unrounded = MakeModel(std::move(rounded), DType::kF32);
    const std::vector<float> exact = BothWays(*unrounded).second;
    const auto [by_piece, by_token] = BothWays(*MakeModel(Weights(seed), types().cache));
    most_prefill = std::max(most_prefill, RelativeDistance(by_piece, exact));
    most_decode = std::max(most_decode, RelativeDistance(by_token, exact));
  }
  EXPECT_LE(most_prefill, kMost * most_decode);
}

std::string NameOf(const testing::TestParamInfo<InvarianceTest::ParamType>& test) {
  const Types types = std::get<2>(test.param);
  std::string name =
      std::get<0>(test.param) + "_" + std::get<1>(test.param) + "_" + NameOf(types.weights);
  if (types.cache == DType::kI8) name += "_int8_cache";
  std::replace(name.begin(), name.end(), '+', '_');
  std::replace(name.begin(), name.end(), '*', 'x');
  return name;
}

// Memory of one session is never readable by the next.
TEST_P(InvarianceTest, ASequenceReachesNothingOfAnEarlierOne) {
  const auto used = MakeModel(Weights(), types().cache);
  const auto fresh = MakeModel(Weights(), types().cache);
  ExpectNothingOfEarlierSequences(*used, *fresh, HostMemory());
}

INSTANTIATE_TEST_SUITE_P(All, InvarianceTest,
                         testing::Combine(testing::ValuesIn(kPlans),
                                          testing::ValuesIn(SetsUnderTest()),
                                          testing::Values(Types{DType::kF32, DType::kF32},
                                                          Types{DType::kBF16, DType::kBF16})),
                         [](const auto& test) { return NameOf(test); });

// All layers project with the same ops, so one model per form of input is enough.
INSTANTIATE_TEST_SUITE_P(Quantised, InvarianceTest,
                         testing::Combine(testing::Values(kMixed, kExperts,
                                                          "chunked+gated+chunked_window"),
                                          testing::ValuesIn(SetsUnderTest()),
                                          testing::Values(Types{DType::kI8, DType::kBF16},
                                                          Types{DType::kI4, DType::kBF16})),
                         [](const auto& test) { return NameOf(test); });

INSTANTIATE_TEST_SUITE_P(Int8Cache, InvarianceTest,
                         testing::Combine(testing::Values("full+full", "rerope+leaky", kMixed),
                                          testing::ValuesIn(SetsUnderTest()),
                                          testing::Values(Types{DType::kF32, DType::kI8},
                                                          Types{DType::kBF16, DType::kI8})),
                         [](const auto& test) { return NameOf(test); });

}  // namespace
}  // namespace longstream
