// Copies of checkpoints with more rows for tokens.
#include "tests/backends/checkpoint/wide_vocabulary.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/checkpoint/safetensors.h"
#include "tests/backends/checkpoint/checkpoint_files.h"

namespace longstream {
namespace {

namespace fs = std::filesystem;

void Widen(int64_t rows, TensorSource* tensor) {
  const auto stored = static_cast<size_t>(tensor->shape[0]);
  const size_t row_bytes = tensor->bytes.size() / stored;
  const size_t element_bytes = row_bytes / static_cast<size_t>(tensor->shape[1]);
  tensor->shape[0] = rows;
  for (size_t r = stored; r < static_cast<size_t>(rows); ++r) {
    std::string row = tensor->bytes.substr(r % stored * row_bytes, row_bytes);
    const size_t turn = r / stored * element_bytes % row_bytes;
    std::rotate(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(turn), row.end());
    tensor->bytes += row;
  }
}

void Write(const fs::path& path, std::string_view content) {
  if (!(std::ofstream(path, std::ios::binary) << content).flush()) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

}  // namespace

std::string FileWithVocabulary(const fs::path& safetensors, int64_t rows) {
  const SafetensorsFile file(safetensors.string());
  std::vector<TensorSource> tensors;
  for (const StoredTensor& stored : file.tensors()) {
    TensorSource tensor{stored.name, stored.type_name, stored.shape,
                        std::string(stored.num_bytes, '\0')};
    file.Read(stored.offset, std::as_writable_bytes(std::span(tensor.bytes)), Executor());
    const auto is = [&stored](std::string_view end) { return stored.name.ends_with(end); };
    if (is("embed_tokens.weight") || is("word_embeddings.weight") || is("wte.weight") ||
        is("lm_head.weight")) {
      Widen(rows, &tensor);
    }
    tensors.push_back(std::move(tensor));
  }
  return SafetensorsBytes(tensors);
}

void WriteWithVocabulary(const fs::path& golden_case, int64_t rows, const fs::path& directory) {
  std::ifstream file(golden_case / "config.json");
  auto config = nlohmann::json::parse(file);
  config.at("vocab_size") = rows;
  Write(directory / "config.json", config.dump());
  Write(directory / "model.safetensors",
        FileWithVocabulary(golden_case / "model.safetensors", rows));
}

}  // namespace longstream
