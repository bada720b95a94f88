// GGUF models in place of model directories.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/checkpoint/gguf/gguf_model.h"

namespace longstream {

// Calls `read`, which may throw a BackendError, and returns this error. A function that reads a
// GGUF model must be called in this way.
absl::Status CatchBackendError(const std::function<void()>& read);

// Opens the GGUF model at a path (backends/checkpoint/gguf/gguf_model.h); nullopt: there is none.
absl::StatusOr<std::optional<GgufModel>> FindGguf(const std::filesystem::path& model);

// A file of JSON that belongs to a model: its text, and its name in sentences. A GGUF model has no
// such files; its metadata gives their texts.
struct ModelJson {
  std::string name;
  std::optional<std::string> text;  // nullopt: there is no such file
};
// config.json. Errors as for FindModelFile and GgufConfigText.
absl::StatusOr<ModelJson> FindConfig(const std::filesystem::path& model);
// generation_config.json. Errors as for FindModelFile and GgufGenerationText.
absl::StatusOr<ModelJson> FindGenerationConfig(const std::filesystem::path& model);

// The files of a GGUF model, and about the bytes of its weights after they are packed: blocks that
// are not Q4_0 become int8.
struct GgufWeights {
  std::vector<std::filesystem::path> files;
  uint64_t file_bytes = 0;
  uint64_t packed_bytes = 0;  // UINT64_MAX stands for all larger numbers
};
absl::StatusOr<std::optional<GgufWeights>> FindGgufWeights(const std::filesystem::path& model);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_H_
