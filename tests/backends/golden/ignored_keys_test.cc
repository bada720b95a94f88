// A model whose config has keys without effect: its logits, and the warnings in the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/architectures/placement/dense_plan.h"
#include "backends/runtime/model.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/bench/plans/random_checkpoint.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 64)";

class IgnoredKeysTest : public ::testing::Test {
 protected:
  // Opens the model of a config with `more` keys. Returns its logits; collects its warnings.
  std::vector<float> Logits(const std::string& more, const std::string& options = "{}") {
    const std::string plain = std::string(kConfig) + "}";
    WriteRandomCheckpoint(DensePlan(Config(plain, "config"), LoadOptions()), plain,
                          directory_.string());
    directory_.Write("config.json", kConfig + more + "}");
    warnings_.clear();
    ls_host host{};
    host.context = this;
    host.num_threads = 1;
    host.log = [](void* context, int32_t severity, const char* text) {
      if (severity == 2) static_cast<IgnoredKeysTest*>(context)->warnings_.emplace_back(text);
    };
    const std::string path = directory_.string();
    ls_model_options open{};
    open.directory = path.c_str();
    open.options = options.c_str();
    open.max_batch_tokens = 64;
    open.max_batch_sequences = 1;
    open.host = &host;
    const auto model = OpenModel({"dense", "1", DenseFit, DensePlan}, open, DeviceOps());
    const auto sequence = CreateReserved(*model, 16);
    return Prefill(*model, *sequence, RandomTokens(9, 50));
  }

  const TemporaryDirectory directory_;
  std::vector<std::string> warnings_;
};

TEST_F(IgnoredKeysTest, AreWarnedOf) {
  const std::vector<float> plain = Logits("");
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(Logits(R"(, "use_flash_attn": true, "partial_rotary_factor": 0.5, "x": NaN)"), plain);
  EXPECT_THAT(warnings_, ElementsAre(directory_.string() +
                                     "/config.json: keys that are not known to the backend dense "
                                     "are ignored: partial_rotary_factor, use_flash_attn, x"));
}

TEST_F(IgnoredKeysTest, TheOptionIsAWayOut) {
  const std::string file = directory_.string() + "/config.json";
  const std::string refused = R"(, "alibi": true)";
  ExpectError(LS_UNIMPLEMENTED, file + ": " + NotKnown("alibi = true", "the backend dense"),
              [&] { Logits(refused); });
  const std::vector<float> plain = Logits("");
  EXPECT_EQ(Logits(refused, R"({"ignore_keys": ["alibi"]})"), plain);
  EXPECT_THAT(warnings_, IsEmpty());
  const std::string own = R"(, "auto_map": {"AutoConfig": "acme.Config"}, "acme": 1)";
  ExpectError(LS_UNIMPLEMENTED, file + ": " + NotKnown("acme = 1", "the backend dense"),
              [&] { Logits(own); });
  EXPECT_EQ(Logits(own, R"({"ignore_keys": ["acme"]})"), plain);
  // A key that has an effect counts as absent, too.
  const std::string scaled = R"(, "rope_scaling": {"type": "linear", "factor": 4.0})";
  EXPECT_NE(Logits(scaled), plain);
  EXPECT_EQ(Logits(scaled, R"({"ignore_keys": ["rope_scaling"]})"), plain);
  ExpectError(LS_INVALID_ARGUMENT,
              "options: ignore_keys acts on nothing: " + file + " has no key alibi",
              [&] { Logits("", R"({"ignore_keys": ["alibi"]})"); });
}

}  // namespace
}  // namespace longstream
