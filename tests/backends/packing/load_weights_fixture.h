// A model of one layer and its checkpoint, for tests of LoadWeights. The reference ops pack a
// weight as its row-major matrix, so tests can read packed weights back.
#ifndef LONGSTREAM_TESTS_BACKENDS_PACKING_LOAD_WEIGHTS_FIXTURE_H_
#define LONGSTREAM_TESTS_BACKENDS_PACKING_LOAD_WEIGHTS_FIXTURE_H_

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backends/checkpoint/quantised/open_checkpoint.h"
#include "backends/packing/convert.h"
#include "backends/packing/load_weights.h"
#include "kernels/reference/reference_ops.h"
#include "tests/backends/checkpoint/checkpoint_files.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/temporary_directory.h"

namespace longstream {

inline constexpr int64_t kVocabulary = 5;
inline constexpr int64_t kWidth = 6;
inline constexpr int64_t kMlpWidth = 7;
inline const std::string kLayer = "model.layers.0.";

inline OpTable PackingOps() {
  OpTable ops;
  ops.packed_bytes = reference::PackedBytes;
  ops.pack = reference::Pack;
  ops.compress = reference::Compress;
  return ops;
}

// A model of one layer, and a file with exactly its tensors.
class LoadWeightsFixture : public ::testing::Test {
 protected:
  LoadWeightsFixture() {
    spec_.vocabulary = kVocabulary;
    spec_.width = kWidth;
    spec_.mlp_width = kMlpWidth;
    spec_.tied_head = true;
    MixerSpec mixer;
    mixer.num_heads = 2;
    mixer.num_kv_heads = 1;
    mixer.head_dim = 4;
    mixer.value_dim = 4;
    spec_.layers = {mixer};
    Add("model.embed_tokens.weight", {kVocabulary, kWidth});
    Add("model.norm.weight", {kWidth});
    Add(kLayer + "input_layernorm.weight", {kWidth});
    Add(kLayer + "post_attention_layernorm.weight", {kWidth});
    Add(kLayer + "mlp.gate_proj.weight", {kMlpWidth, kWidth});
    Add(kLayer + "mlp.up_proj.weight", {kMlpWidth, kWidth});
    Add(kLayer + "mlp.down_proj.weight", {kWidth, kMlpWidth});
    Add(kLayer + "self_attn.q_proj.weight", {8, kWidth});
    Add(kLayer + "self_attn.k_proj.weight", {4, kWidth});
    Add(kLayer + "self_attn.v_proj.weight", {4, kWidth});
    Add(kLayer + "self_attn.o_proj.weight", {kWidth, 8});
  }

  MixerSpec& mixer() { return spec_.layers[0]; }

  // Adds a tensor whose numbers no other tensor has. All are exact in f16 and bf16.
  void Add(const std::string& name, std::vector<int64_t> shape) {
    const float first = static_cast<float>(tensors_.size()) + 1.0f;
    TensorSource tensor = CountingTensor(name, std::move(shape), first, 1.0f / 128);
    Recast(&tensor, "BF16");
    Recast(&tensor, "F32");
    tensors_.insert_or_assign(name, std::move(tensor));
  }

  // Converts a tensor to another type; rounds if necessary.
  static void Recast(TensorSource* tensor, const std::string& type_name) {
    const DType from = TypeOf(tensor->type_name);
    const DType to = TypeOf(type_name);
    const size_t count = tensor->bytes.size() / SizeOf(from);
    std::string bytes(count * SizeOf(to), '\0');
    Convert(AsBytes(tensor->bytes).data(), from, static_cast<int64_t>(count), to, bytes.data());
    tensor->bytes = bytes;
    tensor->type_name = type_name;
  }

  static DType TypeOf(const std::string& name) {
    if (name == "F16") return DType::kF16;
    return name == "BF16" ? DType::kBF16 : DType::kF32;
  }

  void RecastAll(const std::string& type_name) {
    for (auto& [name, tensor] : tensors_) Recast(&tensor, type_name);
  }

  // The numbers of several tensors, one after another.
  std::vector<float> Stored(const std::vector<std::string>& names) const {
    std::vector<float> numbers;
    for (const std::string& name : names) {
      const TensorSource& tensor = tensors_.at(name);
      const DType type = TypeOf(tensor.type_name);
      std::vector<float> values(tensor.bytes.size() / SizeOf(type));
      Convert(AsBytes(tensor.bytes).data(), type, static_cast<int64_t>(values.size()), DType::kF32,
              values.data());
      numbers.insert(numbers.end(), values.begin(), values.end());
    }
    return numbers;
  }

  static std::vector<float> Numbers(const PackedWeight& weight) {
    std::vector<float> numbers(static_cast<size_t>(weight.n * weight.k));
    Convert(static_cast<const std::byte*>(weight.data), weight.type, weight.n * weight.k,
            DType::kF32, numbers.data());
    return numbers;
  }

  static std::vector<float> Numbers(const float* vector, size_t size) {
    return {vector, vector + size};
  }

  void WriteFile(size_t pad = 0) const {
    std::vector<TensorSource> tensors;
    for (const auto& [name, tensor] : tensors_) tensors.push_back(tensor);
    directory_.Write("model.safetensors", SafetensorsBytes(tensors, pad));
  }

  ModelWeights Load(const char* options = "{}", const Executor& executor = Executor()) const {
    const Checkpoint checkpoint =
        OpenCheckpoint(directory_.string(), Config(config_, "config.json"));
    return LoadWeights(spec_, checkpoint, LoadOptions(options), PackingOps(), executor);
  }

  ModelWeights WriteAndLoad(const char* options = "{}") const {
    WriteFile();
    return Load(options);
  }

  void ExpectRefused(ls_code code, const std::string& message, const char* options = "{}") const {
    WriteFile();
    ExpectError(code, ::testing::HasSubstr(message), [&] { Load(options); });
  }

  ModelSpec spec_;
  std::map<std::string, TensorSource> tensors_;
  std::string config_ = "{}";
  TemporaryDirectory directory_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_PACKING_LOAD_WEIGHTS_FIXTURE_H_
