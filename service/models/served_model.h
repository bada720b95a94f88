// A model that is served: the backend that runs it, its tokenizer and its defaults.
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
#include "service/models/backend_model.h"
#include "service/models/host.h"
#include "service/models/plugin.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// Where a model comes from and how it is opened.
struct ModelSource {
  std::string name;             // what clients call it
  std::string directory;        // a Hugging Face model directory
  std::string backend;          // plugin name; empty: the plugin with the best fit
  std::string device = "auto";  // "auto": a GPU where one can be used, else cpu
  std::string options_json = "{}";
  std::string version = "1";
  uint64_t cache_bytes_budget = 0;
  uint32_t max_batch_tokens = kDefaultBatchTokens;
  uint32_t max_batch_sequences = kDefaultBatchSequences;
};

// The model directory's defaults for fields that a request leaves out.
struct GenerationDefaults {
  std::vector<int32_t> end_token_ids;  // of generation_config.json, else config.json
  std::optional<float> temperature;    // do_sample false: 0; true: 1 where none is stated
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// Reads the two files of `directory`; a missing file gives nothing. INVALID_ARGUMENT: a file is
// damaged, or a value has a wrong type or range. Ids are checked against the vocabulary. `eos_id`,
// the tokenizer's, is the only end id if both files name none.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& directory,
                                                          uint32_t vocabulary_size,
                                                          std::optional<int32_t> eos_id);

// Immutable, except the backend, which belongs to the engine thread (BackendModel).
class ServedModel {
 public:
  struct LoadTimes {
    absl::Duration backend;
    absl::Duration tokenizer;
  };

  // Chooses the plugin, opens the model, loads its tokenizer. Errors name the model.
  static absl::StatusOr<std::shared_ptr<ServedModel>> Load(
      const ModelSource& source, std::span<const std::shared_ptr<const Plugin>> plugins,
      const Host* host);

  const std::string& name() const { return source_.name; }
  const ModelSource& source() const { return source_; }
  BackendModel& backend() { return *backend_; }
  const BackendModel& backend() const { return *backend_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const GenerationDefaults& defaults() const { return defaults_; }
  // Not OK: why the model's chat templates cannot be used. The model serves without them.
  const absl::StatusOr<chat::ChatTemplates>& chat() const { return chat_; }
  // A longer text has more tokens than the context, however it is cut into tokens.
  uint64_t max_text_bytes() const { return max_text_bytes_; }
  const LoadTimes& load_times() const { return load_times_; }

 private:
  explicit ServedModel(ModelSource source) : source_(std::move(source)) {}

  const ModelSource source_;
  std::unique_ptr<BackendModel> backend_;
  std::unique_ptr<Tokenizer> tokenizer_;
  GenerationDefaults defaults_;
  absl::StatusOr<chat::ChatTemplates> chat_ = chat::ChatTemplates();
  uint64_t max_text_bytes_ = 0;
  LoadTimes load_times_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_SERVED_MODEL_H_
