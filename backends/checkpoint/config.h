// A model's config.json, read strictly: typed keys, errors that name the key, nothing ignored.
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

// A JSON object of a config: the file's own, or one nested in it. It remembers which keys were
// asked for, so that RefuseUnknown can name one that nobody understood.
//
// A key whose value is null counts as absent: that is how transformers writes "not set".
// Every error is a BackendError whose sentence names file, key, expected and found; a missing key
// and a value of the wrong type or out of range are LS_INVALID_ARGUMENT.
//
// Copies share what was read. Not thread-safe: asking for a key writes to that record.
class Config {
 public:
  // Reads <directory>/config.json. LS_NOT_FOUND where there is none or it cannot be read,
  // LS_INVALID_ARGUMENT where it is no JSON object.
  explicit Config(const std::string& directory);
  // A config from text; `file` is what errors call it.
  Config(std::string_view text, std::string file);

  const std::string& file() const;

  // Whether the key is there with a value other than null. Counts as asking for it.
  bool Has(std::string_view key) const;

  // The value of a key that must be there.
  bool Bool(std::string_view key) const;
  int64_t Integer(std::string_view key, int64_t min, int64_t max) const;
  double Number(std::string_view key, double min, double max) const;
  std::string String(std::string_view key) const;
  std::vector<std::string> Strings(std::string_view key) const;
  std::vector<int64_t> Integers(std::string_view key, int64_t min, int64_t max) const;
  std::vector<double> Numbers(std::string_view key, double min, double max) const;
  // A nested object, with a record of its own.
  Config Object(std::string_view key) const;

  // The same for a key that may be absent; a value that is there must be right all the same.
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
  // Whether the key is there and null, for a key whose absence means something else.
  bool IsNull(std::string_view key) const;

  // All keys, in byte order.
  std::vector<std::string> Keys() const;

  // Refuses, with LS_UNIMPLEMENTED, the first key (in byte order) that is neither null, nor was
  // asked for, nor is known not to change the mathematics: by harmless_keys.h, or by `harmless`,
  // names of which one that ends in * stands for all that begin so. A plan calls it last. `reader`
  // is who does not know the key, for the sentence.
  void RefuseUnknown(std::string_view reader,
                     std::initializer_list<std::string_view> harmless = {}) const;

  // Throw, naming file and key: the value is wrong (LS_INVALID_ARGUMENT), or right but not served
  // (LS_UNIMPLEMENTED). `problem` follows "<file>: <key> ".
  [[noreturn]] void Invalid(std::string_view key, const std::string& problem) const;
  [[noreturn]] void Unsupported(std::string_view key, const std::string& problem) const;

  // The value as JSON text, cut where it is long; "nothing" where it is absent. For sentences.
  std::string Found(std::string_view key) const;

 private:
  struct Node;
  explicit Config(std::shared_ptr<Node> node);

  std::shared_ptr<Node> node_;  // shared with the copies: they record reads in one place
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_CONFIG_H_
