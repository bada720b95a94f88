// Writes the names and shapes of all tensors, and then random numbers for each tensor.
#include "tests/bench/plans/random_checkpoint.h"

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "backends/model/layers.h"
#include "backends/spec/weight_source.h"
#include "kernels/core/dtype.h"

namespace longstream {
namespace {

// Collects the tensors that a model asks for.
class Names final : public WeightSource {
 public:
  PackedWeight Projection(const std::vector<WeightPart>& parts, int64_t k) override {
    for (const WeightPart& part : parts) {
      if (part.stacked > 0) {
        Add(part.name, {part.stacked, part.all_rows() / part.stacked, k});
      } else {
        Add(part.name, {part.all_rows(), k});
      }
    }
    return {};
  }
  std::pair<PackedWeight, PackedWeight> Pair(const WeightPart& first, const WeightPart& second,
                                             int64_t k) override {
    return {Projection({first}, k), Projection({second}, k)};
  }
  std::vector<PackedWeight> Alike(const std::vector<WeightPart>& parts, int64_t k) override {
    return std::vector<PackedWeight>(parts.size(), Projection(parts, k));
  }
  PackedWeight Exact(const std::vector<WeightPart>& parts, int64_t k) override {
    return Projection(parts, k);
  }
  const float* Vector(const std::vector<WeightPart>& parts, float) override {
    for (const WeightPart& part : parts) Add(part.name, {part.all_rows()});
    return nullptr;
  }
  Matrix Table(std::string_view name, int64_t rows, int64_t cols) override {
    Add(std::string(name), {rows, cols});
    return {};
  }
  const float* Constants(std::span<const float>) override { return nullptr; }
  void RequireCopy(std::string_view, std::string_view) override {}

  std::vector<NamedTensor> tensors;

 private:
  // A model may ask for the parts of one tensor one after the other; the tensor is added once.
  // Weights that are filled with zeros have no name and are not added.
  void Add(const std::string& name, std::vector<int64_t> shape) {
    if (name.empty() || (!tensors.empty() && tensors.back().name == name)) return;
    tensors.push_back({name, std::move(shape)});
  }
};

int64_t Elements(const NamedTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

std::string Header(const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json entries;
  int64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const int64_t end = offset + Elements(tensor) * int64_t{sizeof(BF16)};
    entries[tensor.name] = {
        {"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header = entries.dump();
  // The data begins at a multiple of 64 bytes.
  header.append((64 - (header.size() + sizeof(uint64_t)) % 64) % 64, ' ');
  return header;
}

// Makes uniform random numbers. The numbers of a norm lie between 0.9 and 1.1.
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
  // Returns a number from -1/2 to 1/2, drawn by Marsaglia's Xorshift (2003).
  float Uniform() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<float>(state_ >> 40) * 0x1p-24f - 0.5f;
  }

  uint64_t state_ = 88172645463325252u;
};

void WriteBytes(std::ofstream& file, const void* data, size_t bytes) {
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

void Finish(std::ofstream& file, const std::filesystem::path& path) {
  if (!file.flush()) throw std::runtime_error(path.string() + " cannot be written");
}

}  // namespace

std::vector<NamedTensor> TensorsOf(const ModelSpec& spec) {
  Names names;
  ReadWeights(spec, spec.names.roots.front(), names);
  return std::move(names.tensors);
}

void WriteRandomCheckpoint(const ModelSpec& spec, const std::string& config,
                           const std::string& directory) {
  const std::filesystem::path root(directory);
  std::error_code failure;
  std::filesystem::create_directories(root, failure);
  const std::vector<NamedTensor> tensors = TensorsOf(spec);
  const std::string header = Header(tensors);
  // Numbers in the file are little-endian, and so are numbers on every machine that the server
  // supports.
  const uint64_t header_bytes = header.size();
  const std::filesystem::path weights = root / "model.safetensors";
  std::ofstream file(weights, std::ios::binary);
  WriteBytes(file, &header_bytes, sizeof(header_bytes));
  WriteBytes(file, header.data(), header.size());
  Finish(file, weights);  // reports a write error before the numbers, which take time
  Numbers numbers;
  for (const NamedTensor& tensor : tensors) {
    const std::vector<BF16> values = numbers.Of(tensor);
    WriteBytes(file, values.data(), values.size() * sizeof(BF16));
  }
  Finish(file, weights);
  // config.json is written last, so an interrupted write leaves a directory that is not a model.
  std::ofstream config_file(root / "config.json");
  config_file << config << '\n';
  Finish(config_file, root / "config.json");
}

}  // namespace longstream
