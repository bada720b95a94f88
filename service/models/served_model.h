// A model that the server serves: its backend, its tokenizer and its defaults.
#ifndef LONGSTREAM_SERVICE_MODELS_SERVED_MODEL_H_
#define LONGSTREAM_SERVICE_MODELS_SERVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/chat/chat_files.h"
#include "service/config/batch_limits.h"
#include "service/grammar/response/compiled_formats.h"
#include "service/models/backend_model.h"
#include "service/models/host.h"
#include "service/models/plugin.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// The files of a model and the options to open it.
struct ModelSource {
  std::string name;             // the name that clients use
  std::string directory;        // a Hugging Face model directory, or a GGUF model (gguf.h)
  std::string backend;          // plugin name; empty: the plugin that fits best
  std::string device = "auto";  // "auto": a GPU if one can be used, else the CPU
  std::string options_json = "{}";
  std::string version = "1";
  uint64_t cache_bytes_budget = 0;  // 0: HostBudget, or the memory of the GPU
  uint32_t max_batch_tokens = kDefaultBatchTokens;
  uint32_t max_batch_sequences = kDefaultBatchSequences;
};

// How much of the host's memory a model's caches may take if its source has no cache_bytes. 0: all
// memory.
struct HostBudget {
  uint64_t most = 0;   // the most that it may ever get; for a backend whose budget can change later
  uint64_t share = 0;  // what it gets for good; for other backends
  // Why the model must not be opened in the host's memory. It may still be opened on a GPU.
  absl::Status refusal;
};

// The defaults of the model directory for fields that are absent in a request.
struct GenerationDefaults {
  std::vector<int32_t> end_token_ids;  // from generation_config.json, or else from config.json
  std::optional<float>
      temperature;  // 0 if do_sample is false; 1 if it is true and no temperature is given
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// Reads generation_config.json and config.json in `directory`, or the metadata of a GGUF model
// instead. Either file may be missing. `eos_id`
// comes from the tokenizer and is the only end id if both files name none. INVALID_ARGUMENT: a file
// is damaged, a value has a wrong type or range, or an id is outside the vocabulary.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& directory,
                                                          uint32_t vocabulary_size,
                                                          std::optional<int32_t> eos_id);

// Immutable, except for the backend, which only the engine thread uses (BackendModel), and for the
// formats.
class ServedModel {
 public:
  struct LoadTimes {
    absl::Duration backend;
    absl::Duration tokenizer;
  };

  // Chooses a plugin, opens the model and loads its tokenizer. Errors name the model.
  static absl::StatusOr<std::shared_ptr<ServedModel>> Load(
      const ModelSource& source, std::span<const std::shared_ptr<const Plugin>> plugins,
      const Host* host, const HostBudget& budget = {});

  const std::string& name() const { return source_.name; }
  const ModelSource& source() const { return source_; }
  BackendModel& backend() { return *backend_; }
  const BackendModel& backend() const { return *backend_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const GenerationDefaults& defaults() const { return defaults_; }
  // The chat templates of the model, or an error that says why they cannot be used. The model is
  // served without them.
  const absl::StatusOr<chat::ChatTemplates>& chat() const { return chat_; }
  // The formats of answers for the model's vocabulary.
  CompiledFormats& formats() const { return *formats_; }
  // A text of more bytes than this has more tokens than the context, for every possible division
  // into tokens.
  uint64_t max_text_bytes() const { return max_text_bytes_; }
  const LoadTimes& load_times() const { return load_times_; }

 private:
  explicit ServedModel(ModelSource source) : source_(std::move(source)) {}

  const ModelSource source_;
  std::unique_ptr<BackendModel> backend_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<CompiledFormats> formats_;
  GenerationDefaults defaults_;
  absl::StatusOr<chat::ChatTemplates> chat_ = chat::ChatTemplates();
  uint64_t max_text_bytes_ = 0;
  LoadTimes load_times_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_SERVED_MODEL_H_
