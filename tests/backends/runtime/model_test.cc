// An opened model: its description, its budget, and steps that fail.
#include "backends/runtime/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/api/plugin.h"
#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/errors/error.h"
#include "kernels/core/physical_memory.h"
#include "kernels/reference/reference_ops.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr int64_t kVocabulary = 71;
constexpr int32_t kPoison = 13;  // a token whose embedding is NaN in Poisoned()

std::unique_ptr<Model> Open(const std::string& plan, const ModelLimits& limits = {0, 512, 8},
                            uint64_t seed = 1) {
  ModelSpec spec = RandomSpec(plan);
  ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps(), {}, seed);
  return std::make_unique<Model>(std::move(spec), std::move(weights), DType::kF32, ReferenceOps(),
                                 Executor(), limits);
}

// Makes a model in which the embedding of kPoison begins with NaN. The reference ops pack a weight
// as its rows, so the NaN can be written into the packed weight.
std::unique_ptr<Model> Poisoned(const std::string& plan) {
  ModelSpec spec = RandomSpec(plan);
  ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  auto* rows = static_cast<float*>(const_cast<void*>(weights.embedding.data));
  rows[kPoison * spec.width] = std::numeric_limits<float>::quiet_NaN();
  return std::make_unique<Model>(std::move(spec), std::move(weights), DType::kF32, ReferenceOps(),
                                 Executor(), ModelLimits{0, 512, 8});
}

template <typename Body>
ls_code CodeOf(Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const BackendError& error) {
    return error.code();
  }
  return LS_OK;
}

TEST(ModelTest, DescribesItsLayers) {
  const auto model = Open("full+window+leaky+gated+nope");
  const ls_model_info& info = model->info();
  ASSERT_EQ(info.num_layers, 5u);
  const std::pair<int32_t, std::string> expected[] = {{LS_LAYER_FULL, "rope"},
                                                      {LS_LAYER_WINDOW, "rope"},
                                                      {LS_LAYER_FULL, "leaky_rerope"},
                                                      {LS_LAYER_RECURRENT, "none"},
                                                      {LS_LAYER_FULL, "nope"}};
  uint64_t per_token = 0;
  uint64_t fixed = 0;
  for (uint32_t i = 0; i < info.num_layers; ++i) {
    EXPECT_EQ(info.layers[i].kind, expected[i].first);
    EXPECT_EQ(info.layers[i].position, expected[i].second);
    EXPECT_EQ(info.layers[i].window, i == 1 || i == 2 ? 20u : 0u);
    per_token += info.layers[i].bytes_per_token;
    fixed += info.layers[i].bytes_fixed;
  }
  EXPECT_EQ(info.kv_bytes_per_token, per_token);
  EXPECT_EQ(info.kv_bytes_per_token, 3 * 2 * 2 * 6 * sizeof(float));
  EXPECT_EQ(info.window_bytes_per_sequence + info.state_bytes_per_sequence, fixed);
  EXPECT_EQ(info.page_tokens, 64u);
  EXPECT_EQ(Open("window")->info().page_tokens, 0u);
}

TEST(ModelTest, FingerprintsTellModelsApart) {
  const uint64_t fingerprint = Open("full+window")->info().fingerprint;
  EXPECT_EQ(Open("full+window")->info().fingerprint, fingerprint);
  EXPECT_NE(Open("full+window", {0, 512, 8}, /*seed=*/2)->info().fingerprint, fingerprint);
  EXPECT_NE(Open("window+full")->info().fingerprint, fingerprint);
  RandomShape other;
  other.window = 21;
  ModelSpec spec = RandomSpec("full+window", other);
  ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  EXPECT_NE(Model(std::move(spec), std::move(weights), DType::kF32, ReferenceOps(), Executor(),
                  {0, 512, 8})
                .info()
                .fingerprint,
            fingerprint);
}

TEST(ModelTest, ABudgetForLessThanOneTokenIsRefused) {
  const auto model = Open("full+window+gated");
  const ls_model_info& info = model->info();
  const uint64_t least = info.kv_bytes_per_token * 64 + info.window_bytes_per_sequence +
                         info.state_bytes_per_sequence + info.checkpoint_bytes_per_sequence;
  EXPECT_EQ(CodeOf([&] { Open("full+window+gated", {least - 1, 512, 8}); }), LS_INVALID_ARGUMENT);
  const auto smallest = Open("full+window+gated", {least, 512, 8});
  const auto sequence = CreateReserved(*smallest, 64);
  EXPECT_EQ(smallest->memory().reserved, least);
  EXPECT_EQ(smallest->memory().budget, least);
}

// The budget is at most the machine's memory, so Reserve never promises more than there is.
TEST(ModelTest, WithoutABudgetTheMemoryThereIsBounds) {
  EXPECT_EQ(Open("full")->memory().budget, PhysicalMemory());
  EXPECT_EQ(Open("full", {UINT64_MAX, 512, 8})->memory().budget, PhysicalMemory());
  EXPECT_EQ(Open("full", {1 << 20, 512, 8})->memory().budget, uint64_t{1} << 20);
}

TEST(ModelTest, AReservationEndsAtTheContextLimit) {
  const auto model = Open("window");
  const auto sequence = CreateReserved(*model, 2000);
  EXPECT_EQ(CodeOf([&] { model->Reserve(*sequence, 2001); }), LS_INVALID_ARGUMENT);
  EXPECT_EQ(CodeOf([&] { model->Reserve(*sequence, UINT64_MAX); }), LS_INVALID_ARGUMENT);
  Prefill(*model, *sequence, RandomTokens(100, kVocabulary));
  EXPECT_EQ(CodeOf([&] { model->Reserve(*sequence, 1901); }), LS_INVALID_ARGUMENT);
  model->Reserve(*sequence, 1900);
}

TEST(ModelTest, WhatAnOpDoesNotServeIsToldFromADeviceFailure) {
  using Attention = void (*)(Stream&, const AttentionArgs&);
  const std::tuple<Attention, ls_code, const char*> failures[] = {
      {[](Stream& stream, const AttentionArgs&) { stream.Fail(OpStatus::kUnsupported); },
       LS_INTERNAL, "an op does not serve its arguments"},
      {[](Stream& stream, const AttentionArgs&) { stream.Fail(OpStatus::kDeviceError); },
       LS_INTERNAL, "the device reported a failure"},
      {[](Stream& stream, const AttentionArgs&) { stream.Fail(OpStatus::kDeviceLost); },
       LS_UNAVAILABLE, "the device reported a failure and answers no more"}};
  for (const auto& [attention, code, sentence] : failures) {
    OpTable ops = ReferenceOps();
    ops.attention = attention;
    ModelSpec spec = RandomSpec("full");
    ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
    Model model(std::move(spec), std::move(weights), DType::kF32, ops, Executor(), {0, 512, 8});
    const auto sequence = CreateReserved(model, 10);
    const std::vector<PieceResult> results = Step(model, {{sequence.get(), {1, 2, 3}}});
    EXPECT_EQ(results[0].code, code);
    EXPECT_EQ(results[0].message, sentence);
    EXPECT_EQ(sequence->cache->position(), 0);
  }
}

// Opening a model refuses heads that attention does not serve. Heads of the same width are accepted
// in a recurrent layer.
TEST(OpenModelTest, HeadsTooWideForAttentionAreRefused) {
  const TemporaryDirectory directory;
  directory.Write("config.json", "{}");
  const std::string path = directory.string();
  const auto open = [&](ModelSpec (*plan)(const Config&, const LoadOptions&)) {
    const BackendDefinition definition = {"test", "1", nullptr, plan};
    ls_host host{};
    host.num_threads = 1;
    ls_model_options options{};
    options.directory = path.c_str();
    options.max_batch_tokens = options.max_batch_sequences = 1;
    options.host = &host;
    OpenModel(definition, options, ReferenceOps());
  };
  const std::string refusal = path +
                              "/config.json: head_dim must be at most 256 in attention layers, "
                              "found 258";
  ExpectError(LS_UNIMPLEMENTED, refusal, [&] {
    open([](const Config&, const LoadOptions&) {
      return RandomSpec("lightning+window", {.head_dim = 258});
    });
  });
  ExpectError(LS_UNIMPLEMENTED, ::testing::HasSubstr(": gau_key_dim must be at most 256"), [&] {
    open([](const Config&, const LoadOptions&) {
      ModelSpec spec = RandomSpec("full", {.head_dim = 258});
      spec.layers[0].gau = true;
      return spec;
    });
  });
  // The spec is accepted: the error comes from the weights, which are read next and do not exist.
  ExpectError(LS_NOT_FOUND, ::testing::HasSubstr("model.safetensors"), [&] {
    open([](const Config&, const LoadOptions&) {
      return RandomSpec("lightning", {.head_dim = 258});
    });
  });
  ExpectError(LS_NOT_FOUND, ::testing::HasSubstr("model.safetensors"), [&] {
    open([](const Config&, const LoadOptions&) { return RandomSpec("full", {.head_dim = 256}); });
  });
}

TEST(ModelTest, NanLogitsFailTheirSequenceAlone) {
  for (const std::string plan : {"full+full", "window+gated", "rerope+lightning+nope"}) {
    const auto model = Poisoned(plan);
    const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
    const std::vector<int32_t> next = {6};
    const auto control = CreateReserved(*model, 100);
    Prefill(*model, *control, prompt);
    const std::vector<float> expected = Decode(*model, *control, next);

    const auto good = CreateReserved(*model, 100);
    const auto bad = CreateReserved(*model, 100);
    for (ls_sequence* sequence : {good.get(), bad.get()}) Prefill(*model, *sequence, prompt);
    std::vector<PieceResult> results =
        Step(*model, {{bad.get(), {kPoison}, true}, {good.get(), next, true}});
    EXPECT_EQ(results[0].code, LS_INTERNAL);
    EXPECT_NE(results[0].message.find("position 5"), std::string::npos) << results[0].message;
    EXPECT_TRUE(results[0].logits.empty());
    EXPECT_EQ(results[1].code, LS_OK);
    EXPECT_TRUE(results[1].logits == expected) << plan;
    EXPECT_EQ(bad->cache->position(), 5);

    results = Step(*model, {{bad.get(), next, true}});
    EXPECT_EQ(results[0].code, LS_FAILED_PRECONDITION);
    EXPECT_EQ(model->Truncate(*bad, 5), 5u);
    EXPECT_TRUE(Decode(*model, *bad, next) == expected) << plan << ": after the rollback";
  }
}

// A sequence that cannot be repaired refuses tokens until a truncate repairs it.
TEST(ModelTest, NearRingsThatCannotBeRebuiltFailTheirSequence) {
  RandomShape shape;
  shape.window = 300;  // more than is rebuilt at a time
  OpTable ops = ReferenceOps();
  ModelSpec spec = RandomSpec("rerope+leaky", shape);
  ModelWeights weights = RandomWeights(spec, DType::kF32, ops);
  Model model(std::move(spec), std::move(weights), DType::kF32, ops, Executor(), {0, 512, 8});
  const std::vector<int32_t> prompt = RandomTokens(450, kVocabulary);
  const std::vector<int32_t> next = {6};
  const auto control = CreateReserved(model, 500);
  Prefill(model, *control, prompt);
  const std::vector<float> expected = Decode(model, *control, next);

  const auto sequence = CreateReserved(model, 600);
  Prefill(model, *sequence, prompt);
  model.MarkRollbackPoint(*sequence);
  Prefill(model, *sequence, RandomTokens(100, kVocabulary, 2));
  ops.ring_rebuild = [](Stream& stream, const RingRebuildArgs&) {
    stream.Fail(OpStatus::kDeviceError);
  };
  EXPECT_EQ(CodeOf([&] { model.Truncate(*sequence, 450); }), LS_INTERNAL);
  EXPECT_EQ(Step(model, {{sequence.get(), next, true}})[0].code, LS_FAILED_PRECONDITION);
  ops.ring_rebuild = ReferenceOps().ring_rebuild;
  EXPECT_EQ(model.Truncate(*sequence, 450), 450u);
  EXPECT_TRUE(Decode(model, *sequence, next) == expected);
}

// Logits are finite and sampling values are in range, but penalties give NaN: inf - inf.
void ExpectPenaltiesNotTakenForBans(const OpTable& ops) {
  ModelSpec spec = RandomSpec("full");
  ModelWeights weights = RandomWeights(spec, DType::kF32, ops);
  Model model(std::move(spec), std::move(weights), DType::kF32, ops, Executor(), {0, 512, 8});
  const std::vector<int32_t> prompt = {1, 2, 3};
  const auto sequence = CreateReserved(model, 20);
  const std::vector<float> logits = Prefill(model, *sequence, prompt);
  const float* last = logits.data() + 2 * kVocabulary;
  const ls_token_count largest = {
      static_cast<int32_t>(std::max_element(last, last + kVocabulary) - last), 2, 2};
  ls_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.top_p = 1;
  sampling.repetition_penalty = 1e-45f;
  sampling.presence_penalty = sampling.frequency_penalty = 3e38f;
  sampling.history = &largest;
  sampling.num_history = 1;
  const auto sample = [&] {
    const auto fresh = CreateReserved(model, 20);
    return Step(model, {{fresh.get(), prompt, false, LS_ROWS_NONE, &sampling}})[0];
  };
  for (const float temperature : {0.0f, 1.0f}) {
    sampling.temperature = temperature;
    EXPECT_EQ(sample().code, LS_INVALID_ARGUMENT);
    EXPECT_EQ(sample().message,
              "penalties: with bias they turn logits into NaN, or all into -infinity");
  }
  std::vector<ls_logit_bias> bans;
  for (int32_t token = 0; token < kVocabulary; ++token) bans.push_back({token, -INFINITY});
  sampling.num_history = 0;
  sampling.bias = bans.data();
  sampling.num_bias = kVocabulary;
  EXPECT_EQ(sample().code, LS_INVALID_ARGUMENT);
  EXPECT_EQ(sample().message, "bias: every token is banned");
}

TEST(ModelTest, PenaltiesThatOverflowAreNotTakenForBans) {
  ExpectPenaltiesNotTakenForBans(ReferenceOps());
  ExpectPenaltiesNotTakenForBans(DeviceOps());
}

TEST(ModelTest, SaysWhichKernelsItComputesWith) {
  EXPECT_STREQ(Open("full")->info().kernels, "reference");
}

TEST(ModelTest, APageOfAFailedSequenceHarmsNobody) {
  const auto model = Poisoned("full+nope");
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  const auto control = CreateReserved(*model, 10);
  const std::vector<float> expected = Prefill(*model, *control, prompt);
  {
    const auto bad = CreateReserved(*model, 64);
    Step(*model, {{bad.get(), std::vector<int32_t>(64, kPoison)}});
  }
  // The new sequence takes the page that is full of NaN.
  const auto next = CreateReserved(*model, 10);
  EXPECT_TRUE(Prefill(*model, *next, prompt) == expected);
}

TEST(ModelTest, TicketsInFlightFeedThemselves) {
  const auto model = Open("full+gated");
  ls_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.seed = 3;
  sampling.temperature = 2;
  sampling.top_p = sampling.repetition_penalty = 1;
  const auto by_host = CreateReserved(*model, 50);
  const auto by_itself = CreateReserved(*model, 50);
  std::vector<int32_t> expected = {5};
  for (int i = 0; i < 20; ++i) {
    const auto results = Step(*model, {{.sequence = by_host.get(),
                                        .tokens = {expected.back()},
                                        .is_decode = true,
                                        .logit_rows = LS_ROWS_NONE,
                                        .sampling = &sampling}});
    expected.push_back(results[0].sampled);
  }
  std::vector<int32_t> found = {5};
  uint64_t ticket = 0;
  for (int i = 0; i < 20; ++i) {
    const int32_t token = i == 0 ? 5 : LS_TOKEN_FROM_PREVIOUS;
    ls_batch_entry entry{};
    entry.sequence = by_itself.get();
    entry.tokens = &token;
    entry.num_tokens = entry.is_decode = 1;
    entry.sampling = &sampling;
    const ls_batch batch = {sizeof(ls_batch), &entry, 1};
    const uint64_t next = model->Submit(batch);
    if (i > 0) found.push_back(model->Wait(ticket).results[0].sampled);
    ticket = next;
  }
  found.push_back(model->Wait(ticket).results[0].sampled);
  EXPECT_EQ(found, expected);
}

TEST(ModelTest, NaNInFlightFailsTheStepBehindItToo) {
  const auto model = Poisoned("window+gated+full");
  ls_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.top_p = sampling.repetition_penalty = 1;
  const auto bad = CreateReserved(*model, 100);
  const auto good = CreateReserved(*model, 100);
  const auto control = CreateReserved(*model, 100);
  for (ls_sequence* sequence : {bad.get(), good.get(), control.get()}) {
    Prefill(*model, *sequence, RandomTokens(65, kPoison));
    model->MarkRollbackPoint(*sequence);
  }
  const std::vector<Draw> expected = DecodeByHost(*model, *control, 5, 6, sampling);
  ls_sequence* const sequences[] = {bad.get(), good.get()};
  const auto draws = DecodeAhead(*model, sequences, std::vector<int32_t>{kPoison, 5}, 3, sampling);
  EXPECT_EQ(draws[0][0].code, LS_INTERNAL);
  EXPECT_EQ(draws[0][0].message, "NaN or infinite logits after position 65");
  EXPECT_EQ(draws[0][1].code, LS_FAILED_PRECONDITION);
  EXPECT_EQ(draws[0][2].code, LS_FAILED_PRECONDITION);
  EXPECT_TRUE(std::equal(draws[1].begin(), draws[1].end(), expected.begin()));
  EXPECT_EQ(bad->cache->position(), 65);
  EXPECT_EQ(model->Truncate(*bad, 65), 65u);
  EXPECT_TRUE(DecodeByHost(*model, *bad, 5, 6, sampling) == expected);
}

// Log-probabilities, top tokens and logits of one text agree, over more rows than one block of the
// head.
TEST(ModelTest, ScoresAreThoseOfTheLogits) {
  const auto model = Open("window");
  const std::vector<int32_t> tokens = RandomTokens(150, kVocabulary);
  const std::vector<int32_t> targets = RandomTokens(150, kVocabulary, 2);
  const auto sequence = CreateReserved(*model, 150);
  ls_batch_entry entry{};
  entry.sequence = sequence.get();
  entry.tokens = tokens.data();
  entry.num_tokens = 150;
  entry.log_prob_rows = entry.logit_rows = LS_ROWS_ALL;
  entry.targets = targets.data();
  entry.num_top = 3;
  const ls_batch batch = {sizeof(ls_batch), &entry, 1};
  const ls_result result = model->Wait(model->Submit(batch)).results[0];
  ASSERT_EQ(result.code, LS_OK) << result.message;
  ASSERT_EQ(result.num_log_prob_rows, 150u);
  ASSERT_EQ(result.num_logit_rows, 150u);
  for (size_t row = 0; row < 150; ++row) {
    const float* logits = result.logits + row * kVocabulary;
    double sum = 0;
    for (int64_t id = 0; id < kVocabulary; ++id) sum += std::exp(static_cast<double>(logits[id]));
    const auto log_prob = [&](int32_t id) { return logits[id] - std::log(sum); };
    EXPECT_NEAR(result.log_probs[row], log_prob(targets[row]), 1e-5);
    for (size_t i = 0; i < 3; ++i) {
      const ls_top_token& top = result.top[row * 3 + i];
      EXPECT_NEAR(top.log_prob, log_prob(top.token), 1e-5);
      if (i > 0) {
        EXPECT_LE(top.log_prob, result.top[row * 3 + i - 1].log_prob);
      }
    }
    EXPECT_EQ(result.top[row * 3].token, std::max_element(logits, logits + kVocabulary) - logits);
  }
}

TEST(ModelTest, NothingIsHeldWithoutSequences) {
  const auto model = Open("full+rerope+window+gated");
  const ls_memory before = model->memory();
  EXPECT_EQ(before.reserved, 0u);
  {
    const auto sequence = CreateReserved(*model, 300);
    Prefill(*model, *sequence, RandomTokens(300, kVocabulary));
    model->MarkRollbackPoint(*sequence);
    const auto fork = model->Fork(*sequence);
    const ls_memory held = model->memory();
    EXPECT_EQ(held.pages, 5 * 64 * model->info().kv_bytes_per_token);
    EXPECT_EQ(held.rings, 2 * model->info().window_bytes_per_sequence);
    EXPECT_EQ(held.states, 2 * model->info().state_bytes_per_sequence);
    EXPECT_EQ(held.checkpoints, model->info().checkpoint_bytes_per_sequence);
  }
  EXPECT_EQ(model->memory().reserved, 0u);
  // Room for the page tables stays: 5 pages (the longest sequence so far) for each of 8 sequences.
  EXPECT_EQ(model->memory().workspace, before.workspace + 8 * 5 * sizeof(int32_t));
}

TEST(ModelTest, WithoutPagesAReservationCostsNoPageTables) {
  RandomShape shape;
  shape.context_limit = int64_t{1} << 40;
  ModelSpec spec = RandomSpec("window+gated", shape);
  ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  Model model(std::move(spec), std::move(weights), DType::kF32, ReferenceOps(), Executor(),
              {0, 8, 64});
  const uint64_t before = model.memory().workspace;
  const auto sequence = model.Create();
  model.Reserve(*sequence, uint64_t{1} << 40);
  EXPECT_EQ(model.memory().workspace, before);
}

TEST(ModelTest, AReservationThatNoMemoryHoldsIsRefusedForLackOfIt) {
  RandomShape shape;
  shape.context_limit = int64_t{1} << 40;
  ModelSpec spec = RandomSpec("full", shape);
  ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  Model model(std::move(spec), std::move(weights), DType::kF32, ReferenceOps(), Executor(),
              {1 << 20, 8, 64});
  const auto sequence = CreateReserved(model, 10);
  const ls_memory before = model.memory();
  EXPECT_EQ(CodeOf([&] { model.Reserve(*sequence, uint64_t{1} << 40); }), LS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(model.memory().reserved, before.reserved);
  EXPECT_EQ(sequence->cache->reserved_tokens(), 10);
}

// The longest context of 2^40 tokens has 2^34 pages. A page has 2^24 heads of 64 tokens, so it
// takes at least 2^30 bytes, and all pages take at least 2^64 bytes.
TEST(ModelTest, ContextsWhoseBytesCannotBeCountedAreRefused) {
  RandomShape shape;
  shape.num_heads = 1;
  shape.num_kv_heads = 1 << 24;
  shape.context_limit = int64_t{1} << 40;
  ModelSpec spec = RandomSpec("full", shape);
  ModelWeights weights = RandomWeights(RandomSpec("full"), DType::kF32, ReferenceOps());
  EXPECT_EQ(CodeOf([&] {
              Model(spec, std::move(weights), DType::kF32, ReferenceOps(), Executor(), {0, 1, 1});
            }),
            LS_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace longstream
