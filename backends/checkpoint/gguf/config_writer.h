// Writes JSON objects.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_CONFIG_WRITER_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_CONFIG_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Writes the members of a JSON object. Keys and strings are constants of the code, so nothing needs
// escaping.
class ConfigWriter {
 public:
  void Add(std::string_view key, int64_t number) { AddText(key, std::to_string(number)); }
  void AddBool(std::string_view key, bool value) { AddText(key, value ? "true" : "false"); }
  void AddString(std::string_view key, std::string_view text) {
    AddText(key, "\"" + std::string(text) + "\"");
  }
  void AddStrings(std::string_view key, const std::vector<std::string_view>& texts);
  void AddIntegers(std::string_view key, const std::vector<int64_t>& integers);
  void AddNumbers(std::string_view key, const std::vector<float>& numbers);
  void AddObject(std::string_view key, const ConfigWriter& object) { AddText(key, object.Text()); }
  // `json` is a value as JSON text.
  void AddText(std::string_view key, std::string_view json);

  std::string Text() const { return "{" + members_ + "}"; }
  bool empty() const { return members_.empty(); }

 private:
  std::string members_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_CONFIG_WRITER_H_
