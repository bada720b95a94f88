// A model in a device's own memory computes the same bits as a model in the host's memory, and the
// host touches that memory only by copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/api/plugin.h"
#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/model/layers.h"
#include "backends/runtime/model.h"
#include "tests/backends/caches/memory_stream.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/guarded_device.h"
#include "tests/backends/runtime/model_driver.h"

namespace longstream {
namespace {

constexpr uint64_t kMemory = uint64_t{64} << 20;
constexpr size_t kPrompt = 201;  // three grid lines, ten windows
constexpr size_t kTail = 70;     // crosses a grid line and a page

// All outputs of a model that a host can read.
struct Outcome {
  std::vector<float> logits;
  std::vector<int32_t> sampled;
  std::vector<float> log_probs;
  std::vector<int32_t> top;
  std::string snapshot;
  std::string segments;

  bool operator==(const Outcome&) const = default;
};

void Append(std::vector<float>* to, const std::vector<float>& from) {
  to->insert(to->end(), from.begin(), from.end());
}

// Two sequences in one step; tokens are sampled with every option, and scored.
void Sample(Model& model, ls_sequence& first, ls_sequence& second, Outcome* outcome) {
  const ls_token_count history[] = {{5, 2, 1}, {9, 1, 0}};
  const ls_logit_bias bias[] = {{11, 1.5f}, {12, -1.0f}};
  ls_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.seed = 7;
  sampling.temperature = 1.0f;
  sampling.top_p = sampling.repetition_penalty = 1.0f;
  ls_sampling penalised = sampling;
  penalised.repetition_penalty = 1.3f;
  penalised.history = history;
  penalised.num_history = 2;
  penalised.bias = bias;
  penalised.num_bias = 2;
  // One mask allows about half of the tokens, the other a third of them.
  const std::vector<uint32_t> half(MaskWords(model.info().vocabulary_size), 0x5a5a5a5au);
  const std::vector<uint32_t> third(half.size(), 0x92492492u);
  sampling.allowed = half.data();
  penalised.allowed = third.data();
  const int32_t decoded = 3;
  const std::vector<int32_t> piece = {4, 5, 6};
  const std::vector<int32_t> targets = {5, 6, -1};
  ls_batch_entry entries[2] = {};
  entries[0].sequence = &first;
  entries[0].tokens = &decoded;
  entries[0].num_tokens = entries[0].is_decode = 1;
  entries[0].sampling = &penalised;
  entries[0].log_prob_rows = LS_ROWS_LAST;
  entries[0].num_top = 3;
  entries[1].sequence = &second;
  entries[1].tokens = piece.data();
  entries[1].num_tokens = 3;
  entries[1].sampling = &sampling;
  entries[1].log_prob_rows = LS_ROWS_ALL;
  entries[1].targets = targets.data();
  entries[1].logit_rows = LS_ROWS_LAST;
  const ls_batch batch = {sizeof(ls_batch), entries, 2};
  const ls_results results = model.Wait(model.Submit(batch));
  for (uint32_t i = 0; i < results.num_results; ++i) {
    const ls_result& result = results.results[i];
    ASSERT_EQ(result.code, LS_OK) << result.message;
    outcome->sampled.push_back(result.sampled);
    for (uint32_t row = 0; row < result.num_log_prob_rows; ++row) {
      if (targets[row] >= 0) outcome->log_probs.push_back(result.log_probs[row]);
    }
    for (uint32_t t = 0; t < result.num_log_prob_rows * entries[i].num_top; ++t) {
      outcome->top.push_back(result.top[t].token);
      outcome->log_probs.push_back(result.top[t].log_prob);
    }
    const size_t size = size_t{result.num_logit_rows} * model.info().vocabulary_size;
    outcome->logits.insert(outcome->logits.end(), result.logits, result.logits + size);
  }
}

// A session's life: turns, rollbacks to the rollback point and before it, a fork, a move.
Outcome Live(Model& model) {
  Outcome outcome;
  const std::vector<int32_t> tokens = RandomTokens(kPrompt + kTail, 71);
  const std::span<const int32_t> tail = std::span(tokens).last(kTail);
  const auto sequence = CreateReserved(model, kPrompt + kTail + 10);
  Append(&outcome.logits, Prefill(model, *sequence, std::span(tokens).first(kPrompt)));
  model.MarkRollbackPoint(*sequence);
  Append(&outcome.logits, Decode(model, *sequence, tail));
  EXPECT_EQ(model.Truncate(*sequence, kPrompt), kPrompt);
  Append(&outcome.logits, Decode(model, *sequence, tail));
  const auto fork = model.Fork(*sequence);
  model.Reserve(*fork, 20);
  Sample(model, *sequence, *fork, &outcome);
  // Logits of the first entry are not wanted, those of the second entry's last row are.
  for (const PieceResult& result :
       Step(model, {{sequence.get(), {7}, /*is_decode=*/true, LS_ROWS_NONE},
                    {fork.get(), RandomTokens(9, 71, 3), /*is_decode=*/false, LS_ROWS_LAST}})) {
    EXPECT_EQ(result.code, LS_OK) << result.message;
    Append(&outcome.logits, result.logits);
  }
  outcome.snapshot = ExportBytes(model, *fork);
  outcome.segments = SegmentBytes(model, *fork);
  const auto restored =
      ImportSegments(model, static_cast<uint64_t>(fork->cache->position()), outcome.segments);
  model.Reserve(*restored, 10);
  Append(&outcome.logits, Decode(model, *restored, std::span(tokens).first(5)));
  MemoryStream stream;
  model.Export(*fork, stream.writer());
  const auto moved = model.Import(stream.reader());
  model.Reserve(*moved, 10);
  Append(&outcome.logits, Decode(model, *moved, std::span(tokens).first(5)));
  return outcome;
}

class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Model> MakeModel(const OpTable& ops, Device& device) {
    RandomShape shape;
    shape.chunk_size = 96;
    ModelSpec spec = RandomSpec(GetParam(), shape);
    ModelWeights weights = RandomWeights(spec, DType::kF32, DeviceOps());
    return std::make_unique<Model>(std::move(spec), std::move(weights), DType::kF32, ops,
                                   Executor(), ModelLimits{0, 1024, 8}, device);
  }
};

TEST_P(DeviceTest, TheBitsOfTheHost) {
  const auto on_host = MakeModel(DeviceOps(), HostMemory());
  GuardedDevice device(kMemory);
  const auto on_device = MakeModel(GuardedOps(), device);
  const Outcome expected = Live(*on_host);
  const Outcome found = Live(*on_device);
  EXPECT_EQ(found.sampled, expected.sampled);
  EXPECT_TRUE(found == expected);
  EXPECT_LT(on_device->memory().budget, kMemory);
  EXPECT_EQ(on_device->memory().reserved, 0u);
}

// A step has one upload for rows and descriptors, and one for the head's rows and the sampling
// arguments.
TEST_P(DeviceTest, AStepUploadsTwice) {
  GuardedDevice device(kMemory);
  const auto model = MakeModel(GuardedOps(), device);
  const auto sequence = CreateReserved(*model, 100);
  const uint64_t before = device.uploads();
  Prefill(*model, *sequence, RandomTokens(50, 71));
  EXPECT_EQ(device.uploads() - before, 2u);
  Step(*model, {{sequence.get(), RandomTokens(30, 71), /*is_decode=*/false, LS_ROWS_LAST}});
  EXPECT_EQ(device.uploads() - before, 4u);
}

// Entries with one mask share its copy on the device.
TEST_P(DeviceTest, AMaskIsUploadedOnce) {
  constexpr size_t kEntries = 8;
  constexpr uint32_t kVocabulary = 71;
  // Entry i may draw the tokens t with t % 8 = i.
  std::vector<std::vector<uint32_t>> masks;
  for (size_t i = 0; i < kEntries; ++i) masks.emplace_back(3, 0x01010101u << i);
  uint64_t uploaded = 0;
  const auto draw = [&](Model& model, const GuardedDevice* device, bool shares) {
    std::vector<ls_sampling> sampling(kEntries, WarmSampling());
    std::vector<std::unique_ptr<ls_sequence>> sequences;
    std::vector<Piece> pieces;
    for (size_t i = 0; i < kEntries; ++i) {
      sampling[i].seed = i;
      sampling[i].allowed = masks[shares ? 0 : i].data();
      sequences.push_back(CreateReserved(model, 20));
      pieces.push_back({sequences.back().get(), {5}, true, LS_ROWS_NONE, &sampling[i]});
    }
    const uint64_t before = device != nullptr ? device->uploaded_bytes() : 0;
    std::vector<int32_t> tokens;
    for (const PieceResult& result : Step(model, pieces)) tokens.push_back(result.sampled);
    uploaded = device != nullptr ? device->uploaded_bytes() - before : 0;
    return tokens;
  };
  const auto on_host = MakeModel(DeviceOps(), HostMemory());
  GuardedDevice device(kMemory);
  const auto on_device = MakeModel(GuardedOps(), device);
  const std::vector<int32_t> own = draw(*on_device, &device, /*shares=*/false);
  const uint64_t with_own = uploaded;
  EXPECT_EQ(own, draw(*on_host, nullptr, false));
  for (size_t i = 0; i < kEntries; ++i) {
    EXPECT_LT(own[i], static_cast<int32_t>(kVocabulary));
    EXPECT_EQ(own[i] % 8, static_cast<int32_t>(i));
  }
  const std::vector<int32_t> expected = draw(*on_host, nullptr, /*shares=*/true);
  const std::vector<int32_t> shared = draw(*on_device, &device, /*shares=*/true);
  EXPECT_EQ(shared, expected);
  EXPECT_THAT(shared, testing::Each(testing::ResultOf([](int32_t t) { return t % 8; }, 0)));
  EXPECT_EQ(with_own - uploaded, (kEntries - 1) * TransferBytes(3, sizeof(uint32_t)));
}

// All memory that a turn uses was allocated before the turn, or with its reservation.
TEST_P(DeviceTest, ATurnAllocatesNothing) {
  GuardedDevice device(kMemory);
  const auto model = MakeModel(GuardedOps(), device);
  const auto sequence = CreateReserved(*model, 400);
  const DeviceMemory rest(device, device.free_bytes(), "rest");
  Prefill(*model, *sequence, RandomTokens(200, 71));
  model->MarkRollbackPoint(*sequence);
  const std::vector<float> expected = Prefill(*model, *sequence, RandomTokens(100, 71));
  model->Truncate(*sequence, 200);
  EXPECT_EQ(Prefill(*model, *sequence, RandomTokens(100, 71)), expected);
}

// The three rows of a step are padded to four. The logits stay on the device: the host downloads
// fewer bytes than the logits have.
TEST_P(DeviceTest, SequencesThatFeedThemselvesDrawWhatTheHostFeedsThem) {
  const auto on_host = MakeModel(DeviceOps(), HostMemory());
  GuardedDevice device(kMemory);
  const auto on_device = MakeModel(GuardedOps(), device);
  constexpr size_t kSteps = 70;  // across a grid line and a page
  std::vector<std::vector<Draw>> expected;
  std::vector<std::unique_ptr<ls_sequence>> sequences;
  std::vector<ls_sequence*> handles;
  const std::vector<int32_t> first = {3, 60, 17};
  for (size_t i = 0; i < first.size(); ++i) {
    const std::vector<int32_t> prompt = RandomTokens(30 + 40 * i, 71, static_cast<uint32_t>(i));
    const auto control = CreateReserved(*on_host, prompt.size() + kSteps);
    Prefill(*on_host, *control, prompt);
    expected.push_back(DecodeByHost(*on_host, *control, first[i], kSteps, WarmSampling()));
    sequences.push_back(CreateReserved(*on_device, prompt.size() + kSteps));
    Prefill(*on_device, *sequences.back(), prompt);
    handles.push_back(sequences.back().get());
  }
  const uint64_t before = device.downloaded_bytes();
  EXPECT_TRUE(DecodeAhead(*on_device, handles, first, kSteps, WarmSampling()) == expected);
  const uint64_t logit_bytes = on_device->info().vocabulary_size * sizeof(float);
  EXPECT_LT(device.downloaded_bytes() - before, kSteps * handles.size() * logit_bytes);
}

// The second step was submitted before the failure of the first was known, so both fail.
TEST_P(DeviceTest, AFailureInFlightIsOfBothSteps) {
  GuardedDevice device(kMemory);
  const auto model = MakeModel(GuardedOps(), device);
  const auto sequence = CreateReserved(*model, 100);
  Prefill(*model, *sequence, RandomTokens(50, 71));
  model->MarkRollbackPoint(*sequence);
  ls_sequence* const sequences[] = {sequence.get()};
  const std::vector<int32_t> first = {3};
  device.FailOnce();
  const std::vector<Draw> draws = DecodeAhead(*model, sequences, first, 3, WarmSampling())[0];
  EXPECT_EQ(draws[0].code, LS_INTERNAL);
  EXPECT_EQ(draws[1].code, LS_FAILED_PRECONDITION);
  EXPECT_EQ(draws[2].code, LS_FAILED_PRECONDITION);  // refused: the failure is known
  EXPECT_EQ(sequence->cache->position(), 50);
  EXPECT_EQ(model->Truncate(*sequence, 50), 50u);
  const std::vector<Draw> again = DecodeAhead(*model, sequences, first, 3, WarmSampling())[0];
  EXPECT_EQ(again[2].code, LS_OK);
}

TEST_P(DeviceTest, AFailureIsOfTheStep) {
  GuardedDevice device(kMemory);
  const auto model = MakeModel(GuardedOps(), device);
  const auto sequence = CreateReserved(*model, 100);
  const std::vector<float> expected = Prefill(*model, *sequence, RandomTokens(50, 71));
  model->Truncate(*sequence, 0);
  device.FailOnce();
  const auto results = Step(*model, {{sequence.get(), RandomTokens(50, 71)}});
  EXPECT_EQ(results[0].code, LS_INTERNAL);
  EXPECT_EQ(results[0].message, "the device reported a failure");
  model->Truncate(*sequence, 0);
  EXPECT_EQ(Prefill(*model, *sequence, RandomTokens(50, 71)), expected);
}

INSTANTIATE_TEST_SUITE_P(Plans, DeviceTest,
                         testing::Values("full+full", "window+window", "rerope+leaky",
                                         "window+full*", "chunked+gated+chunked_window",
                                         "lightning+gated+nope",
                                         "window+rerope+lightning+nope+gated+leaky"));

TEST(DeviceMemoryTest, TooLittleIsSaidWithBytes) {
  GuardedDevice device(8192);
  ExpectError(LS_RESOURCE_EXHAUSTED, "logits: the device has no 10000 bytes, 8192 are free",
              [&] { DeviceMemory(device, 10000, "logits"); });
}

// On a device, slots and rollback copies get half of the budget, pages the rest.
TEST(DevicePoolsTest, AreWithinTheBudgetAndRunOutEachByItself) {
  GuardedDevice device(kMemory);
  const CacheLayout layout = MakeCacheLayout(RandomSpec("full+window+gated"), DType::kF32);
  const auto slot_bytes = static_cast<uint64_t>(layout.slot_stride + layout.rollback_stride());
  const uint64_t budget = 9 * slot_bytes + 5 * layout.page_bytes;
  CacheStore store(layout, budget, device);
  EXPECT_EQ(store.budget.limit(), budget);
  const uint64_t spare = static_cast<uint64_t>(layout.slot_stride) + layout.page_bytes;
  EXPECT_LE(kMemory - device.free_bytes(),
            budget + spare + 8 * 4096);  // this device allocates whole pages

  const uint64_t num_slots = budget / 2 / slot_bytes;
  std::vector<std::unique_ptr<SequenceCache>> sequences;
  for (uint64_t i = 0; i < num_slots; ++i) {
    sequences.push_back(std::make_unique<SequenceCache>(store));
  }
  ExpectError(LS_RESOURCE_EXHAUSTED,
              "rings and states: all of " + std::to_string(num_slots) + " are in use",
              [&] { SequenceCache one_more(store); });
  sequences.pop_back();
  sequences.push_back(std::make_unique<SequenceCache>(store));

  const uint64_t num_pages = (budget - num_slots * slot_bytes) / layout.page_bytes;
  ASSERT_GT(num_pages, 2u);
  EXPECT_TRUE(store.pages.CanPromise(static_cast<int64_t>(num_pages)));
  EXPECT_FALSE(store.pages.CanPromise(static_cast<int64_t>(num_pages) + 1));
}

TEST(DevicePoolsTest, OneSlotEvenWhereItIsMoreThanHalf) {
  const CacheLayout layout = MakeCacheLayout(RandomSpec("full+window"), DType::kF32);
  const auto slot_bytes = static_cast<uint64_t>(layout.slot_stride + layout.rollback_stride());
  const PoolSizes sizes =
      DivideBudget(layout, slot_bytes + layout.page_bytes, /*host_memory=*/false);
  EXPECT_EQ(sizes.num_slots, 1u);
  EXPECT_EQ(sizes.page_bytes, layout.page_bytes);
}

// The slots of these models have more bytes than their rings and states, because arrays are
// aligned. In the last model a page has many times the bytes of a slot.
TEST(DevicePoolsTest, TheSmallestBudgetHoldsASequence) {
  RandomShape shape;
  shape.head_dim = 7;
  for (const char* plan :
       {"window", "lightning", "gated", "window+lightning", "full+window", "rerope+lightning",
        "full", "full+full+full+full+full+full+full+full+full+full+window"}) {
    const CacheLayout layout = MakeCacheLayout(RandomSpec(plan, shape), DType::kBF16);
    const uint64_t budget =
        layout.ring_bytes + layout.state_bytes + layout.rollback_bytes + layout.page_bytes;
    GuardedDevice device(uint64_t{1} << 24);
    CacheStore store(layout, budget, device);
    EXPECT_NO_THROW(SequenceCache(store).Reserve(1)) << plan;
  }
}

// Opens a demo checkpoint from its files. Weights are copied to the device one by one, into one
// piece of its memory.
TEST(OpenOnDeviceTest, WeightsLieInTheMemoryOfTheDevice) {
  const BackendDefinition definition = {"hypenet", "1", HypenetFit, HypenetPlan};
  ls_host host{};
  host.struct_size = sizeof(host);
  host.num_threads = 1;
  ls_model_options options{};
  options.directory = LONGSTREAM_SOURCE_DIR "/models/demo/hypenet";
  options.max_batch_tokens = 512;
  options.max_batch_sequences = 8;
  options.host = &host;
  const auto on_host = OpenModel(definition, options, DeviceOps());
  GuardedDevice device(uint64_t{1} << 30);
  const auto on_device = OpenModel(definition, options, GuardedOps(), device);
  EXPECT_EQ(on_device->weights().bytes, on_host->weights().bytes);
  EXPECT_EQ(on_device->info().fingerprint, on_host->info().fingerprint);
  EXPECT_TRUE(Live(*on_device) == Live(*on_host));

  GuardedDevice small(on_host->weights().bytes / 2);
  ExpectError(LS_RESOURCE_EXHAUSTED,
              testing::MatchesRegex("weights: the device has no [0-9]+ bytes, [0-9]+ are free"),
              [&] { OpenModel(definition, options, GuardedOps(), small); });
}

}  // namespace
}  // namespace longstream
