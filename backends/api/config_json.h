// The text of config.json, which hosts and backends parse as JSON. Not part of the ABI.
#ifndef LONGSTREAM_BACKENDS_API_CONFIG_JSON_H_
#define LONGSTREAM_BACKENDS_API_CONFIG_JSON_H_

#include <cctype>
#include <string>
#include <string_view>

namespace longstream {

// Python's json module writes NaN, Infinity and -Infinity, which are no JSON. This function makes
// each of them a string: NaN becomes "NaN". So a parser reads the rest of the file, and code that
// expects a number refuses the string. All other text stays as it is, also text that is no JSON.
inline std::string QuoteNonFinite(std::string_view text) {
  constexpr std::string_view kWords[] = {"NaN", "Infinity", "-Infinity"};
  const auto is_word = [text](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 ||
                               text[i] == '_' || text[i] == '-');
  };
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    std::string_view word;
    for (const std::string_view candidate : kWords) {
      const bool is_whole = !in_string && text.substr(i, candidate.size()) == candidate &&
                            !is_word(i + candidate.size()) && (i == 0 || !is_word(i - 1));
      if (is_whole) word = candidate;
    }
    if (!word.empty()) {
      out.append(1, '"').append(word).append(1, '"');
      i += word.size();
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
    out += text[i++];
  }
  return out;
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_API_CONFIG_JSON_H_
