// Names the tensors, then writes their numbers.
#include "tests/bench/plans/random_checkpoint.h"

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "kernels/core/dtype.h"

namespace longstream {
namespace {

constexpr const char* kGateNames[] = {"o_gate", "o_gate", "z_proj", "f_proj"};  // by MixerKind

// Collects tensors below a prefix.
class Names {
 public:
  void SetPrefix(std::string prefix) { prefix_ = std::move(prefix); }

  void Matrix(const std::string& name, int64_t n, int64_t k, bool bias = false) {
    tensors.push_back({prefix_ + name + ".weight", {n, k}});
    if (bias) tensors.push_back({prefix_ + name + ".bias", {n}});
  }
  void Norm(const std::string& name, int64_t n) {
    tensors.push_back({prefix_ + name + ".weight", {n}});
  }

  std::vector<NamedTensor> tensors;

 private:
  std::string prefix_;
};

void AddMixer(const MixerSpec& mixer, int64_t width, Names& names) {
  const int64_t q = int64_t{mixer.num_heads} * mixer.head_dim;
  const int64_t k = int64_t{mixer.num_kv_heads} * mixer.head_dim;
  const int64_t v = int64_t{mixer.num_kv_heads} * mixer.value_dim;
  const int64_t out = int64_t{mixer.num_heads} * mixer.value_dim;
  const bool gated_rnn = mixer.kind == MixerKind::kGatedRnn;
  names.Matrix("q_proj", q, width, mixer.qkv_bias);
  names.Matrix("k_proj", k, width, mixer.qkv_bias);
  names.Matrix("v_proj", v, width, mixer.qkv_bias);
  names.Matrix("o_proj", width, out, mixer.output_bias);
  if (gated_rnn || mixer.output_gate) {
    const char* gate = kGateNames[static_cast<size_t>(mixer.kind)];
    names.Matrix(gate, gated_rnn ? q : out, width, /*bias=*/gated_rnn);
  }
  if (mixer.qk_norm == QkNorm::kHead) {
    names.Norm("q_norm", mixer.head_dim);
    names.Norm("k_norm", mixer.head_dim);
  }
  if (mixer.output_norm) names.Norm("o_norm", out);
}

int64_t Elements(const NamedTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

std::string Header(const std::vector<NamedTensor>& tensors) {
  std::string header = "{";
  int64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const int64_t end = offset + Elements(tensor) * int64_t{sizeof(BF16)};
    std::string shape;
    for (const int64_t extent : tensor.shape) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    }
    header += (offset == 0 ? "\"" : ", \"") + tensor.name + R"(": {"dtype": "BF16", "shape": [)" +
              shape + R"(], "data_offsets": [)" + std::to_string(offset) + ", " +
              std::to_string(end) + "]}";
    offset = end;
  }
  header += "}";
  // The data begins at a multiple of 64 bytes.
  header.append((64 - (header.size() + sizeof(uint64_t)) % 64) % 64, ' ');
  return header;
}

// Uniform numbers; a norm's are 0.9 to 1.1.
class Numbers {
 public:
  std::vector<BF16> Of(const NamedTensor& tensor) {
    const bool is_norm = tensor.name.ends_with("norm.weight");
    const float mean = is_norm ? 1.0f : 0.0f;
    const float spread =
        is_norm ? 0.2f : std::sqrt(12.0f / static_cast<float>(tensor.shape.back()));
    std::vector<BF16> numbers(static_cast<size_t>(Elements(tensor)));
    for (BF16& number : numbers) number = ToBF16(mean + spread * Uniform());
    return numbers;
  }

 private:
  // From -1/2 to 1/2. Xorshift: Marsaglia 2003.
  float Uniform() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<float>(state_ >> 40) * 0x1p-24f - 0.5f;
  }

  uint64_t state_ = 88172645463325252u;
};

void WriteFile(const std::filesystem::path& path,
               const std::function<void(std::ofstream& file)>& write) {
  std::ofstream file(path, std::ios::binary);
  if (file) write(file);
  if (!file.flush()) throw std::runtime_error(path.string() + " cannot be written");
}

void WriteBytes(std::ofstream& file, const void* data, size_t bytes) {
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

}  // namespace

std::vector<NamedTensor> TensorsOf(const ModelSpec& spec) {
  Names names;
  names.SetPrefix("model.");
  names.Matrix("embed_tokens", spec.vocabulary, spec.width);
  if (spec.chunked()) names.Matrix("chunk_embed", spec.num_chunks, spec.width);
  names.Norm("norm", spec.width);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    names.SetPrefix(layer);
    names.Norm("input_layernorm", spec.width);
    names.Norm("post_attention_layernorm", spec.width);
    names.SetPrefix(layer + "self_attn.");
    AddMixer(spec.layers[i], spec.width, names);
    names.SetPrefix(layer + "mlp.");
    names.Matrix("gate_proj", spec.mlp_width, spec.width);
    names.Matrix("up_proj", spec.mlp_width, spec.width);
    names.Matrix("down_proj", spec.width, spec.mlp_width);
  }
  names.SetPrefix("");
  if (!spec.tied_head) names.Matrix("lm_head", spec.vocabulary, spec.width);
  return std::move(names.tensors);
}

void WriteRandomCheckpoint(const ModelSpec& spec, const std::string& config,
                           const std::string& directory) {
  const std::filesystem::path root(directory);
  std::error_code failure;
  std::filesystem::create_directories(root, failure);
  const std::vector<NamedTensor> tensors = TensorsOf(spec);
  WriteFile(root / "model.safetensors", [&](std::ofstream& file) {
    const std::string header = Header(tensors);
    const uint64_t header_bytes = header.size();  // little-endian, as every machine served
    WriteBytes(file, &header_bytes, sizeof(header_bytes));
    WriteBytes(file, header.data(), header.size());
    Numbers numbers;
    for (const NamedTensor& tensor : tensors) {
      const std::vector<BF16> values = numbers.Of(tensor);
      WriteBytes(file, values.data(), values.size() * sizeof(BF16));
    }
  });
  // config.json is last: an interrupted write leaves no model.
  WriteFile(root / "config.json", [&](std::ofstream& file) { file << config << '\n'; });
}

}  // namespace longstream
