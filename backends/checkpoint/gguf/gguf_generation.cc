// Writes a generation_config.json from the metadata of a GGUF model.
#include "backends/checkpoint/gguf/gguf_generation.h"

#include <optional>
#include <utility>

#include "backends/checkpoint/gguf/config_writer.h"
#include "backends/checkpoint/gguf/gguf_vocabulary.h"
#include "backends/errors/error.h"

namespace longstream {

std::string GgufGenerationText(const GgufModel& model) {
  ConfigWriter config;
  const GgufVocabulary vocabulary = ReadGgufVocabulary(model);
  if (!vocabulary.ends.empty()) config.AddIntegers("eos_token_id", vocabulary.ends);
  constexpr std::pair<const char*, const char*> kKeys[] = {
      {"general.sampling.temp", "temperature"},
      {"general.sampling.top_k", "top_k"},
      {"general.sampling.top_p", "top_p"},
      {"general.sampling.min_p", "min_p"},
      {"general.sampling.penalty_repeat", "repetition_penalty"}};
  for (const auto& [from, to] : kKeys) {
    const GgufValue* const value = model.Find(from);
    if (value == nullptr) continue;
    const std::optional<std::string> number = value->NumberText();
    if (!number) {
      throw BackendError(
          LS_INVALID_ARGUMENT,
          model.path() + ": " + from + " must be a finite number, found " + value->Found());
    }
    config.AddText(to, *number);
  }
  return config.Text();
}

}  // namespace longstream
