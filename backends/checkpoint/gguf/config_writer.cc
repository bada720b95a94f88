// Writes JSON objects.
#include "backends/checkpoint/gguf/config_writer.h"

#include <charconv>
#include <cmath>

namespace longstream {

void ConfigWriter::AddText(std::string_view key, std::string_view json) {
  if (!members_.empty()) members_ += ", ";
  members_.append("\"").append(key).append("\": ").append(json);
}

void ConfigWriter::AddStrings(std::string_view key, const std::vector<std::string_view>& texts) {
  std::string list;
  for (const std::string_view text : texts) {
    list.append(list.empty() ? "\"" : ", \"").append(text).append("\"");
  }
  AddText(key, "[" + list + "]");
}

void ConfigWriter::AddIntegers(std::string_view key, const std::vector<int64_t>& integers) {
  std::string list;
  for (const int64_t integer : integers) {
    list += (list.empty() ? "" : ", ") + std::to_string(integer);
  }
  AddText(key, "[" + list + "]");
}

void ConfigWriter::AddNumbers(std::string_view key, const std::vector<float>& numbers) {
  std::string list;
  for (const float number : numbers) {
    char text[64];
    const auto [end, error] = std::to_chars(text, text + sizeof(text), number);
    if (!list.empty()) list += ", ";
    // JSON has no infinities. A reader refuses a string here.
    list += std::isfinite(number) ? std::string(text, end) : "\"not finite\"";
  }
  AddText(key, "[" + list + "]");
}

}  // namespace longstream
