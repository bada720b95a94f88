// Reads the metadata that describes a model's architecture: no value is ignored silently.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_METADATA_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_METADATA_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "backends/checkpoint/gguf/gguf_model.h"

namespace longstream {

// The values whose keys begin with the name of the architecture, "llama." for example. Keys are
// written here without this prefix. Remembers which keys were asked for. Errors are BackendError
// and name the file, the key and what was found: LS_INVALID_ARGUMENT for a missing value or one of
// the wrong type or size. Borrows the model. Not thread-safe.
class GgufMetadata {
 public:
  // LS_INVALID_ARGUMENT: there is no general.architecture.
  explicit GgufMetadata(const GgufModel& model);

  const GgufModel& model() const { return model_; }
  const std::string& architecture() const { return architecture_; }

  // Whether the value is there. Counts as asking for it.
  bool Has(std::string_view key);
  // The value, or nullptr. Counts as asking for it.
  const GgufValue* Find(std::string_view key);

  // An integer from 0 on. Of a list with one number for each layer, that number if all are equal;
  // if not, LS_UNIMPLEMENTED.
  std::optional<int64_t> FindInteger(std::string_view key);
  int64_t Integer(std::string_view key);
  // A finite number, as JSON text (GgufValue::NumberText).
  std::optional<std::string> FindNumber(std::string_view key);
  std::string Number(std::string_view key);
  std::optional<std::string> FindString(std::string_view key);

  // Throws LS_UNIMPLEMENTED unless the value is absent or this number or truth value.
  void RequireNumber(std::string_view key, double usual);
  void RequireBool(std::string_view key, bool usual);

  // Throws LS_UNIMPLEMENTED for the first key, in byte order, that nothing has asked for and that
  // is not in `harmless`, because it may change the mathematics.
  void RefuseUnread(std::initializer_list<std::string_view> harmless) const;

  // "<file>: <architecture>.<key> <problem>".
  [[noreturn]] void Invalid(std::string_view key, const std::string& problem) const;
  [[noreturn]] void Unsupported(std::string_view key, const std::string& problem) const;

 private:
  std::string Sentence(std::string_view key, const std::string& problem) const;

  const GgufModel& model_;
  std::string architecture_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_METADATA_H_
