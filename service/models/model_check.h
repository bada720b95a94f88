// Checks the files of a model without loading its weights.
#ifndef LONGSTREAM_SERVICE_MODELS_MODEL_CHECK_H_
#define LONGSTREAM_SERVICE_MODELS_MODEL_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/models/plugin_choice.h"
#include "service/models/served_model.h"

namespace longstream {

struct ModelCheck {
  std::vector<std::string> plugins;  // "NAME.DEVICE", in the order in which they would be tried
  std::vector<std::string> weights;  // the safetensors or GGUF files
  uint64_t weight_bytes = 0;         // their sizes together
  std::string tokenizer;             // its kind
  absl::Status chat;                 // OK: the model accepts messages. Else: why it does not
};

// Checks that a plugin serves the model's config.json, that the files which the index of the
// weights names are there, and that tokenizer, generation defaults and chat templates can be read.
// Does not check options, the content of weights, memory or the presence of a GPU.
absl::StatusOr<ModelCheck> CheckModel(const ModelSource& source, Plugins plugins);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_MODEL_CHECK_H_
