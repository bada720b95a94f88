// GGUF models in place of model directories.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/checkpoint/gguf/gguf_model.h"

namespace longstream {

// Calls `read`, which may throw, and returns its error: a BackendError, or that memory is short. A
// function that reads a GGUF model must be called in this way.
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

// The files of a GGUF model, and about the bytes of its weights in memory. UINT64_MAX stands for
// all larger numbers.
struct GgufWeights {
  std::vector<std::filesystem::path> files;
  uint64_t file_bytes = 0;
  uint64_t bytes_in_memory = 0;
};
// nullopt: there is no GGUF model at the path. `type`: the option `weights`. With "auto", blocks of
// the type Q4_0 become int4, and all other blocks int8.
absl::StatusOr<std::optional<GgufWeights>> FindGgufWeights(const std::filesystem::path& model,
                                                           std::string_view type = "auto");

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_H_
