// Reads a model's config.json strictly: keys have types, errors name the key, and no key is ignored
// silently.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_CONFIG_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_CONFIG_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// A JSON object of a config: the whole file, or an object nested in it. It remembers which keys the
// code has asked for, so that RefuseUnknown can name a key that nothing has read.
//
// A key with the value null counts as absent, because transformers writes "not set" as null. NaN,
// Infinity and -Infinity, which Python writes, are read as strings, so no number may have such a
// value. Every error is a BackendError whose sentence names file, key, expected and found. A
// missing key and a value of the wrong type or out of range are LS_INVALID_ARGUMENT.
//
// Copies share one record of the keys read. Copies and nested objects share the warnings and what
// happens to unknown keys. Not thread-safe, because reading a key writes to these records.
class Config {
 public:
  // Reads <path>/config.json, or the metadata of the GGUF model at the path (gguf_config.h).
  // LS_NOT_FOUND: there is no such file, or it cannot be read. LS_INVALID_ARGUMENT: it is not a
  // JSON object. Of a GGUF model, others as for GgufConfigText.
  explicit Config(const std::string& path);
  // Parses a config from `text`. Errors use `file` as its name.
  Config(std::string_view text, std::string file);

  const std::string& file() const;

  // Removes keys, so that they count as absent. A key of a nested object has its path before it:
  // "rope_scaling.factor". Call it before the first key is read. LS_INVALID_ARGUMENT: the config
  // has no such key.
  void Remove(const std::vector<std::string>& keys);

  // Whether the key is present and not null. Counts as asking for it.
  bool Has(std::string_view key) const;

  // The value of a required key.
  bool Bool(std::string_view key) const;
  int64_t Integer(std::string_view key, int64_t min, int64_t max) const;
  double Number(std::string_view key, double min, double max) const;
  std::string String(std::string_view key) const;
  std::vector<std::string> Strings(std::string_view key) const;
  std::vector<int64_t> Integers(std::string_view key, int64_t min, int64_t max) const;
  std::vector<double> Numbers(std::string_view key, double min, double max) const;
  // A nested object. It keeps its own record of the keys read.
  Config Object(std::string_view key) const;

  // The value of an optional key. A present value must still have the right type and range.
  std::optional<bool> FindBool(std::string_view key) const;
  std::optional<int64_t> FindInteger(std::string_view key, int64_t min, int64_t max) const;
  std::optional<double> FindNumber(std::string_view key, double min, double max) const;
  std::optional<std::string> FindString(std::string_view key) const;
  std::optional<std::vector<std::string>> FindStrings(std::string_view key) const;
  std::optional<std::vector<int64_t>> FindIntegers(std::string_view key, int64_t min,
                                                   int64_t max) const;
  std::optional<std::vector<double>> FindNumbers(std::string_view key, double min,
                                                 double max) const;
  std::optional<Config> FindObject(std::string_view key) const;

  // Whether the value is a JSON string, for a key that may be a string or a number.
  bool IsString(std::string_view key) const;
  // Whether the key is present and null, for a key whose absence means something else.
  bool IsNull(std::string_view key) const;
  // Whether the value is this number. Does not count as asking for the key.
  bool IsNumber(std::string_view key, double number) const;

  // All keys, in byte order.
  std::vector<std::string> Keys() const;

  // Refuses unknown keys. Throws LS_UNIMPLEMENTED for the first key (in byte order) that is not
  // null, that nothing has asked for, and that may change the mathematics. The keys that do not
  // change the mathematics are in harmless_keys.h and in `harmless`, where a name that ends in *
  // stands for all keys with that prefix. A backend's plan function calls it last. The sentence
  // names `reader` as the part that does not know the key. After IgnoreUnknown, it refuses only
  // keys that are known to change the mathematics (harmless_keys.h), and warns about the others.
  void RefuseUnknown(std::string_view reader,
                     std::initializer_list<std::string_view> harmless = {}) const;
  // States that other software reads this config with a class that ignores keys it does not know.
  // Has no effect if auto_map names a class of the checkpoint's own, which may know them.
  void IgnoreUnknown() const;

  // Adds the warning "<file>: <key> <problem>", unless there is one with this text.
  void Warn(std::string_view key, const std::string& problem) const;
  // Sentences for the log of the code that opens the model.
  const std::vector<std::string>& warnings() const;

  // Throw an error that names the file and the key. Invalid: the value is wrong
  // (LS_INVALID_ARGUMENT). Unsupported: the value is valid but not served (LS_UNIMPLEMENTED). The
  // sentence is "<file>: <key> <problem>".
  [[noreturn]] void Invalid(std::string_view key, const std::string& problem) const;
  [[noreturn]] void Unsupported(std::string_view key, const std::string& problem) const;

  // For error sentences: the value as JSON text, cut if it is long; "nothing" if it is absent.
  std::string Found(std::string_view key) const;

 private:
  struct Node;
  struct Shared;
  explicit Config(std::shared_ptr<Node> node);

  void AddWarning(std::string sentence) const;

  std::shared_ptr<Node> node_;  // shared by copies, so that there is one record of the keys read
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_CONFIG_H_
