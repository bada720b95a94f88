// Reads GGUF models, and turns their errors into statuses.
#include "service/tokenizer/files/gguf.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "backends/checkpoint/gguf/gguf_config.h"
#include "backends/checkpoint/gguf/gguf_generation.h"
#include "backends/errors/error.h"
#include "service/tokenizer/files/model_file.h"

namespace longstream {
namespace {

absl::StatusOr<ModelJson> FindJson(const std::filesystem::path& model, const char* name,
                                   std::string (*text_of)(const GgufModel&)) {
  ModelJson json;
  const absl::StatusOr<std::optional<GgufModel>> gguf = FindGguf(model);
  if (!gguf.ok()) return gguf.status();
  if (gguf->has_value()) {
    json.name = (*gguf)->path();
    absl::Status status = CatchBackendError([&] { json.text = text_of(**gguf); });
    if (!status.ok()) return status;
    return json;
  }
  const std::filesystem::path path = model / name;
  json.name = path.string();
  absl::StatusOr<std::optional<std::string>> text = FindModelFile(path);
  if (!text.ok()) return text.status();
  json.text = *std::move(text);
  return json;
}

// Bytes of 32 weights. An int8 or int4 group has a scale of 2 bytes.
uint64_t BytesOf32(const GgufTensorType& stored, std::string_view type) {
  if (type == "int4") return 18;
  if (type == "int8") return 34;
  if (type == "f16" || type == "bf16") return 64;
  if (type == "f32") return 128;
  if (stored.elements == 1) return uint64_t{32} * stored.bytes;
  return stored.name == "Q4_0" ? 18 : 34;
}

uint64_t BytesInMemory(const GgufTensor& tensor, std::string_view type) {
  const uint64_t elements = tensor.num_bytes / tensor.type->bytes * tensor.type->elements;
  if (tensor.shape.size() < 2) return elements * sizeof(float);
  return elements / 32 * BytesOf32(*tensor.type, type);
}

}  // namespace

// The codes of the ABI are those of absl::StatusCode.
absl::Status CatchBackendError(const std::function<void()>& read) {
  try {
    read();
    return absl::OkStatus();
  } catch (const std::exception&) {
    const BackendError error = HandledError();
    return absl::Status(static_cast<absl::StatusCode>(error.code()), error.what());
  }
}

absl::StatusOr<std::optional<GgufModel>> FindGguf(const std::filesystem::path& model) {
  std::optional<GgufModel> found;
  absl::Status status = CatchBackendError([&] { found = GgufModel::Open(model.string()); });
  if (!status.ok()) return status;
  return found;
}

absl::StatusOr<ModelJson> FindConfig(const std::filesystem::path& model) {
  return FindJson(model, "config.json", GgufConfigText);
}

absl::StatusOr<ModelJson> FindGenerationConfig(const std::filesystem::path& model) {
  return FindJson(model, "generation_config.json", GgufGenerationText);
}

absl::StatusOr<std::optional<GgufWeights>> FindGgufWeights(const std::filesystem::path& model,
                                                           std::string_view type) {
  const absl::StatusOr<std::optional<GgufModel>> gguf = FindGguf(model);
  if (!gguf.ok()) return gguf.status();
  if (!gguf->has_value()) return std::nullopt;
  GgufWeights weights;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  for (const GgufModel::Part& part : (*gguf)->parts()) {
    weights.files.emplace_back(part.path);
    weights.file_bytes += std::min(part.file_bytes, kMost - weights.file_bytes);
    for (const GgufTensor& tensor : part.front.header.tensors) {
      weights.bytes_in_memory +=
          std::min(BytesInMemory(tensor, type), kMost - weights.bytes_in_memory);
    }
  }
  return weights;
}

}  // namespace longstream
