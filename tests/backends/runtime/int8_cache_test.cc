// Models with keys and values in int8 pages: their bytes, their snapshots, NaN, and ops that do not
// serve them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/runtime/model.h"
#include "kernels/reference/reference_ops.h"
#include "tests/backends/caches/memory_stream.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr int64_t kInt8Vocabulary = 71;
constexpr int32_t kPoisonToken = 13;

// Opens a model. The embedding of token `poison` begins with a NaN; if `poison` is -1, no embedding
// does.
std::unique_ptr<Model> Open(const std::string& plan, DType cache, int32_t poison = -1) {
  ModelSpec spec = RandomSpec(plan);
  ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  if (poison >= 0) {
    // The reference ops pack a weight as its rows, so the NaN can be written into the packed
    // weight.
    auto* rows = static_cast<float*>(const_cast<void*>(weights.embedding.data));
    rows[poison * spec.width] = std::numeric_limits<float>::quiet_NaN();
  }
  return std::make_unique<Model>(std::move(spec), std::move(weights), cache, ReferenceOps(),
                                 Executor(), ModelLimits{0, 512, 8});
}

// A model with another cache type refuses the snapshot.
TEST(Int8CacheTest, CachesOfAnotherTypeAreOfAnotherModel) {
  const auto bf16 = Open("full+rerope", DType::kBF16);
  const auto int8 = Open("full+rerope", DType::kI8);
  EXPECT_EQ(bf16->info().kv_bytes_per_token, 2 * 2 * 2 * 6 * sizeof(BF16));
  EXPECT_EQ(int8->info().kv_bytes_per_token, 2 * 2 * 2 * (6 + sizeof(BF16)));
  EXPECT_EQ(int8->info().window_bytes_per_sequence, bf16->info().window_bytes_per_sequence);
  EXPECT_NE(int8->info().fingerprint, bf16->info().fingerprint);

  constexpr uint64_t kTokens = 70;
  const auto sequence = CreateReserved(*int8, kTokens);
  Prefill(*int8, *sequence, RandomTokens(kTokens, kInt8Vocabulary));
  MemoryStream stream(ExportBytes(*int8, *sequence));
  // The snapshot has only the tokens, although they fill no page. It also has a header, and four
  // blocks' headers and checksums.
  EXPECT_EQ(stream.bytes().size(), kTokens * int8->info().kv_bytes_per_token + 40 + 4 * (16 + 4));
  ExpectError(LS_FAILED_PRECONDITION, ::testing::HasSubstr("with other options"),
              [&] { bf16->Import(stream.reader()); });
}

// NaN in a key or a value passes through int8 pages to the logits, where it is noticed.
TEST(Int8CacheTest, WhatIsNoNumberPassesThroughInt8Pages) {
  for (const char* plan : {"full+full", "rerope+full"}) {
    const auto model = Open(plan, DType::kI8, kPoisonToken);
    const auto sequence = CreateReserved(*model, 10);
    const ls_sampling greedy = WarmSampling();
    EXPECT_EQ(
        Step(*model, {{sequence.get(), {1, kPoisonToken, 3}, false, LS_ROWS_LAST, &greedy}})[0]
            .code,
        LS_INTERNAL)
        << plan;
  }
}

TEST(Int8CacheTest, IsRefusedWhereNoOpServesIt) {
  const TemporaryDirectory directory;
  directory.Write("config.json", "{}");
  const std::string path = directory.string();
  const auto open = [&](const OpTable& ops, const char* load_options) {
    const BackendDefinition definition = {
        "test", "1", nullptr, [](const Config&, const LoadOptions&) { return RandomSpec("full"); }};
    ls_host host{};
    host.num_threads = 1;
    ls_model_options options{};
    options.directory = path.c_str();
    options.options = load_options;
    options.max_batch_tokens = options.max_batch_sequences = 1;
    options.host = &host;
    OpenModel(definition, options, ops);
  };
  constexpr char kInt8[] = R"({"cache": "int8"})";
  OpTable ops = ReferenceOps();
  ops.name = "other";
  ops.int8_pages = false;
  ExpectError(LS_UNIMPLEMENTED,
              "options: cache: int8 is served on the CPU only, expected auto, f32, f16 or bf16 "
              "with the ops other",
              [&] { open(ops, kInt8); });
  // The option is accepted: the error comes from the weights, which are read next and do not exist.
  ExpectError(LS_NOT_FOUND, ::testing::HasSubstr("model.safetensors"),
              [&] { open(ReferenceOps(), kInt8); });
  ExpectError(LS_NOT_FOUND, ::testing::HasSubstr("model.safetensors"),
              [&] { open(ops, R"({"cache": "bf16"})"); });
}

}  // namespace
}  // namespace longstream
