// Quantised checkpoints with the option weights left to the checkpoint: which types their weights
// get, and that the logits stay near those of the exact weights.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "tests/backends/golden/golden_case.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

const std::string kGolden = std::string(LONGSTREAM_SOURCE_DIR) + "/tests/golden/";

// The products of int4 and int8 weights round activations to 8 bits. For logits with a standard
// deviation of 1, that is a difference of less than 0.1 in these cases. With weights that are
// decoded wrongly, the difference is above 1.
constexpr float kTolerance = 0.15f;

// The types of q|k|v, of o, and of the second product of the MLP.
struct Types {
  const char* name;
  DType in, out, down;
};

constexpr Types kTypes[] = {
    {"quantised_awq", DType::kI8, DType::kI8, DType::kI8},
    {"quantised_float8", DType::kBF16, DType::kBF16, DType::kBF16},
    {"quantised_fp8", DType::kBF16, DType::kBF16, DType::kBF16},
    {"quantised_gptq", DType::kI4, DType::kI4, DType::kI4},
    {"quantised_gptq_8bits", DType::kI8, DType::kI8, DType::kI8},
    {"quantised_gptq_order", DType::kF16, DType::kF16, DType::kF16},
    {"quantised_int8", DType::kI8, DType::kI8, DType::kI8},
    // v has no groups of ours, so q|k|v are f32. The other weights have their own types.
    {"quantised_pack", DType::kF32, DType::kI4, DType::kBF16},
    {"quantised_pack_zeros", DType::kI8, DType::kI8, DType::kI8},
};

float LargestDifference(const GoldenCase& golden, const std::vector<float>& logits,
                        size_t vocabulary) {
  float largest = 0;
  for (size_t r = 0; r < golden.rows.size(); ++r) {
    for (size_t id = 0; id < vocabulary; ++id) {
      const float logit = logits[static_cast<size_t>(golden.rows[r]) * vocabulary + id];
      const float difference = std::fabs(logit - golden.logits[r * vocabulary + id]);
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

TEST(QuantisedTest, TypesAndLogits) {
  for (const Types& types : kTypes) {
    SCOPED_TRACE(types.name);
    const GoldenCase golden = ReadGoldenCase(types.name);
    const std::string options =
        R"("cache": "f32", "context_limit": )" + std::to_string(golden.tokens.size());
    const std::unique_ptr<Model> model = OpenGoldenCase(types.name, options, DeviceOps());
    const LayerWeights& layer = model->weights().layers[0];
    EXPECT_STREQ(NameOf(layer.mixer.in.type), NameOf(types.in));
    EXPECT_STREQ(NameOf(layer.mixer.out.type), NameOf(types.out));
    EXPECT_STREQ(NameOf(layer.mlp.down.type), NameOf(types.down));
    const auto sequence = CreateReserved(*model, golden.tokens.size());
    const std::vector<float> logits = Prefill(*model, *sequence, golden.tokens);
    EXPECT_LT(LargestDifference(golden, logits, model->info().vocabulary_size), kTolerance);
  }
}

// Copies of a golden checkpoint whose config.json differs in one place.
class OtherConfigs {
 public:
  // `part`: what the text of config.json has in that place.
  OtherConfigs(const std::string& name, const std::string& part) : part_(part) {
    std::filesystem::copy(kGolden + name, directory_.string());
    std::stringstream config;
    config << std::ifstream(kGolden + name + "/config.json").rdbuf();
    text_ = config.str();
  }

  // The fingerprint of the model with `other` in that place, with packed weights beside it.
  uint64_t Fingerprint(const std::string& other) const {
    std::string text = text_;
    text.replace(text.find(part_), part_.size(), other);
    directory_.Write("config.json", text);
    ls_host host{};
    host.struct_size = sizeof(host);
    host.num_threads = 1;
    const std::string options = R"({"packed_cache": ")" + directory_.string() + R"(/packed"})";
    const std::string path = directory_.string();
    ls_model_options model{};
    model.struct_size = sizeof(model);
    model.directory = path.c_str();
    model.options = options.c_str();
    model.max_batch_tokens = 64;
    model.max_batch_sequences = 1;
    model.host = &host;
    return OpenModel(BestBackend(path), model, DeviceOps())->info().fingerprint;
  }

 private:
  const TemporaryDirectory directory_;
  const std::string part_;
  std::string text_;
};

// The config decides what the same bytes mean, so weights that were packed with another config are
// not used.
TEST(QuantisedTest, PackedWeightsOfAnotherConfigAreNotUsed) {
  const struct {
    const char* name;
    const char* part;
    const char* other;
  } kCases[] = {
      {"quantised_gptq_order", "gptq_v2", "gptq"},
      {"quantised_fp8", "32,", "40,"},  // outputs of a block
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.name);
    const OtherConfigs configs(test.name, test.part);
    const uint64_t first = configs.Fingerprint(test.part);
    EXPECT_EQ(configs.Fingerprint(test.part), first);
    EXPECT_NE(configs.Fingerprint(test.other), first);
    EXPECT_EQ(configs.Fingerprint(test.part), first);
  }
}

}  // namespace
}  // namespace longstream
